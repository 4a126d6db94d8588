package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"weir/internal/zmtp"
	"weir/router/kvevent"
	"weir/router/prefix"
)

// Events says where a vLLM or an SGLang publishes the KV events of its cache, in the words of its own option --kv-events-config. A host "*"
// is the replica's.
type Events struct {
	Endpoint string // "tcp://*:5557", "ipc:///run/vllm/kv.sock"; "" is nowhere
	Replay   string // replay_endpoint, where missed ones are asked for; "" is none
	Topic    string
}

// check reports what is wrong with where events are said to be, of replicas of a kind.
func (e *Events) check(kind Kind) error {
	if *e == (Events{}) {
		return nil
	}
	if kind != VLLM && kind != SGLang {
		return fmt.Errorf("a replica of kind %q has kv_events; vllm and sglang publish them, and of weirs an admin_url tells the same", kind)
	}
	for _, named := range []struct{ name, text string }{{"endpoint", e.Endpoint}, {"replay_endpoint", e.Replay}} {
		if named.name == "replay_endpoint" && named.text == "" {
			continue
		}
		if _, _, err := zmtp.ParseEndpoint(named.text); err != nil {
			return fmt.Errorf("kv_events.%s: %w", named.name, err)
		}
	}
	return nil
}

// at is an endpoint of the target.
func (t *Target) at(endpoint string) string {
	rest, any := strings.CutPrefix(endpoint, "tcp://*:")
	if !any {
		return endpoint
	}
	host := t.Address
	if host == "" {
		host = t.Base.Hostname()
	}
	return "tcp://" + net.JoinHostPort(host, rest)
}

const (
	mostFeedBlocks    = 400_000 // of a replica, as many as an index keeps keys of one
	feedPause         = time.Second
	longestFeedPause  = 30 * time.Second
	replaySilence     = 10 * time.Second
	mostReplays       = 8              // in a row that bring nothing new
	feedBytes         = 32 << 20       // of events a second are read; what a publisher cannot send it drops, and is asked for again
	endOfReplay       = math.MaxUint64 // the number of the message that ends a replay
	lastBatchUnknown  = uint64(math.MaxUint64)
	feedEpochsOfFleet = uint64(1) << 63 // epochs of feeds begin here, so that none is that of a weir
)

// eventFollower follows the KV events of one replica. Its batches are numbered from 0.
type eventFollower struct {
	blocks *blockIndex
	r      *replica
	ledger *kvevent.Ledger

	next   uint64            // number of the batch that comes next
	last   [sha256.Size]byte // of the one before
	whole  bool              // all of the engine's events were read
	known  uint64            // batches below this number were replayed since the connection was made, and may come again
	caught bool              // since the connection was made, nothing is missed
	hidden bool              // the index knows nothing of the replica: its holdings may have changed

	epoch, seq uint64 // of the changes that the index was told
	changes    []prefix.Event
}

// followEvents reads events until ctx ends. When the connection breaks, what was missed is asked for, or the replica's cache is relearned.
func (b *blockIndex) followEvents(ctx context.Context, r *replica) {
	r.mu.Lock()
	r.fed = &EventsStatus{}
	r.mu.Unlock()
	d := &eventFollower{blocks: b, r: r, ledger: kvevent.NewLedger(r.model, mostFeedBlocks), epoch: feedEpochsOfFleet}
	wait, failing := b.rest, ""
	for ctx.Err() == nil {
		err := d.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if d.caught {
			wait, failing = b.rest, ""
		}
		d.hide(err)
		d.show(err)
		if text := err.Error(); text != failing {
			failing = text
			b.changed(Change{r.id, "block events failed", text})
		}
		if !pause(ctx, wait) {
			return
		}
		wait = min(2*wait, longestFeedPause)
	}
}

// unreadableError is an error of what a publisher says.
type unreadableError struct{ error }

// hide makes the index forget the replica until its events can be read again. A connection that broke may be made again before
// anything has changed; what could not be read never tells more.
func (d *eventFollower) hide(err error) {
	_, garbled := errors.AsType[unreadableError](err)
	if garbled {
		d.ledger.Forget()
		d.next, d.caught = 0, false
	}
	if !d.caught && !d.hidden {
		d.hidden = true
		if !d.gone() {
			d.blocks.index.Drop(d.r.number)
		}
	}
}

// read follows the publisher on one connection, until that breaks.
func (d *eventFollower) read(ctx context.Context) error {
	d.caught, d.known = false, 0
	at := &d.r.target.Events
	live, err := zmtp.Dial(ctx, d.r.target.at(at.Endpoint), zmtp.Config{Socket: zmtp.Sub, Beats: true, Silence: time.Minute})
	if err != nil {
		return err
	}
	defer live.Close()
	if err := live.Subscribe(at.Topic); err != nil {
		return err
	}
	if err := d.begin(ctx); err != nil {
		return err
	}
	d.show(nil)
	if d.caught = true; d.next != lastBatchUnknown {
		d.known = d.next
	}
	paced := byteRate{began: time.Now()}
	for {
		frames, err := live.Receive()
		if err != nil {
			return err
		}
		n, payload, err := numbered(frames)
		if err != nil {
			return err
		}
		if err := d.live(ctx, n, payload); err != nil {
			return err
		}
		if !paced.take(ctx, len(payload)) {
			return ctx.Err()
		}
	}
}

// numbered is a message: a topic where there is one, the number of a batch, the batch.
func numbered(frames [][]byte) (n uint64, payload []byte, err error) {
	if len(frames) < 2 || len(frames[len(frames)-2]) != 8 {
		return 0, nil, fmt.Errorf("a message of KV events has %d frames; want a topic, a number of 8 bytes and a batch", len(frames))
	}
	return binary.BigEndian.Uint64(frames[len(frames)-2]), frames[len(frames)-1], nil
}

// begin catches up with the publisher after a connection was made. The batch that was read last is asked for again: where it is not the
// same, the engine was restarted.
func (d *eventFollower) begin(ctx context.Context) error {
	if d.r.target.Events.Replay == "" {
		d.relearn(0, false)
		err := d.tell()
		d.next = lastBatchUnknown
		return err
	}
	if d.next > 0 && d.next != lastBatchUnknown {
		switch err := d.replay(ctx, d.next-1); {
		case err == nil:
			return d.tell()
		case !errors.Is(err, errOtherEngine):
			return err
		}
	}
	d.relearn(0, true)
	if err := d.tell(); err != nil {
		return err
	}
	return d.replay(ctx, 0)
}

// errOtherEngine says that a publisher's batches are not those that were read.
var errOtherEngine = errors.New("the batches of KV events are of another process, or were lost")

// live takes in a batch as it is published.
func (d *eventFollower) live(ctx context.Context, n uint64, payload []byte) error {
	switch {
	case d.next == lastBatchUnknown:
		d.relearn(n, n == 0)
	case n < d.known:
		return nil
	case n < d.next:
		return errOtherEngine
	case n > d.next:
		err := errOtherEngine
		if d.r.target.Events.Replay != "" {
			err = d.replay(ctx, d.next)
			d.known = d.next
		}
		switch {
		case err != nil && !errors.Is(err, errOtherEngine):
			return err
		case err == nil && n < d.next:
			return nil
		case n != d.next: // what was published before is gone
			d.relearn(n, false)
		}
	}
	return d.take(n, payload)
}

// relearn forgets all that the replica holds. Whole says that the batches that follow are all that its engine has published.
func (d *eventFollower) relearn(next uint64, whole bool) {
	d.ledger.Forget()
	d.next, d.whole = next, whole
	d.epoch++
	d.seq = 0
	d.changes = append(d.changes[:0], prefix.Event{Kind: prefix.Cleared, Partial: !whole})
	d.r.mu.Lock()
	d.r.fed.Relearned++
	d.r.mu.Unlock()
}

// show notes for operators how the replica's events are followed; err is why they are not.
func (d *eventFollower) show(err error) {
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	told := d.r.fed
	told.Whole, told.Blocks, told.Unread, told.Failing = d.whole && d.next != lastBatchUnknown, d.ledger.Blocks(), d.ledger.Unread, ""
	if err != nil {
		told.Failing = err.Error()
	}
}

// replay asks for the batches from a number on. It is asked again where some of them were lost on the way, as a router of ZeroMQ does with
// what a slow reader has no room for. Where the first one is not what is asked for, or the one that was read last is another,
// the error is errOtherEngine; of the number 0, what is there is taken.
func (d *eventFollower) replay(ctx context.Context, from uint64) error {
	for tries := 0; ; tries++ {
		before := d.next
		done, err := d.replayOnce(ctx, from)
		switch {
		case err != nil:
			return err
		case done:
			return nil
		case d.next != before:
			tries = 0
		}
		if tries == mostReplays {
			return fmt.Errorf("%s gives no batch after number %d", d.r.target.Events.Replay, d.next)
		}
		from = d.next - min(d.next, 1)
	}
}

func (d *eventFollower) replayOnce(ctx context.Context, from uint64) (done bool, err error) {
	conn, err := zmtp.Dial(ctx, d.r.target.at(d.r.target.Events.Replay), zmtp.Config{Socket: zmtp.Dealer, Silence: replaySilence})
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if err := conn.Send(nil, binary.BigEndian.AppendUint64(nil, from)); err != nil {
		return false, err
	}
	paced := byteRate{began: time.Now()}
	for first := true; ; first = false {
		frames, err := conn.Receive()
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			return false, nil // its end was lost
		}
		if err != nil {
			return false, err
		}
		n, payload, err := numbered(frames)
		switch {
		case err != nil:
			return false, err
		case n == endOfReplay:
			return true, d.ended(first, from)
		case n < d.next:
			if n+1 == d.next && sha256.Sum256(payload) != d.last {
				return false, errOtherEngine
			}
			continue
		case first && from < d.next: // the one that was read last is gone
			return false, errOtherEngine
		case n > d.next && first && from == 0:
			d.relearn(n, false) // older ones are gone
		case n > d.next && first:
			return false, errOtherEngine
		case n > d.next:
			return false, nil
		}
		if err := d.take(n, payload); err != nil {
			return false, err
		}
		if !paced.take(ctx, len(payload)) {
			return false, ctx.Err()
		}
	}
}

// ended says what it means that a replay has ended; empty: with nothing before.
func (d *eventFollower) ended(empty bool, from uint64) error {
	if empty && from < d.next { // the batch that was read last is not there
		return errOtherEngine
	}
	return nil
}

// take takes in the batch that comes next.
func (d *eventFollower) take(n uint64, payload []byte) error {
	b, err := kvevent.Decode(payload)
	if err != nil {
		return unreadableError{err}
	}
	d.next, d.last = n+1, sha256.Sum256(payload)
	d.r.mu.Lock()
	d.r.fed.Batches++
	d.r.mu.Unlock()
	for i := range b.Events {
		d.whole = d.whole || b.Events[i].Kind == kvevent.Cleared
		if d.changes, err = d.ledger.Take(d.changes, &b.Events[i]); err != nil {
			return unreadableError{err}
		}
	}
	if root := (hashRoots{blockTokens: d.ledger.BlockTokens(), told: true}); root.blockTokens > 0 {
		if err := d.blocks.agreed(d.r, root); err != nil {
			return unreadableError{err}
		}
	}
	return d.tell()
}

// tell brings the changes into the index. One that has forgotten the replica, as while it was down, is told all that the replica holds.
func (d *eventFollower) tell() error {
	err := d.apply()
	if _, gap := errors.AsType[*prefix.GapError](err); gap || d.hidden {
		d.epoch++
		d.seq, d.hidden = 0, false
		d.changes = d.ledger.List(append(d.changes[:0], prefix.Event{Kind: prefix.Cleared, Partial: !d.whole}))
		err = d.apply()
	}
	d.changes = d.changes[:0]
	d.show(err)
	return err
}

// gone reports whether the replica has left the fleet, and its number may be another one's.
func (d *eventFollower) gone() bool {
	d.r.mu.Lock()
	defer d.r.mu.Unlock()
	return d.r.gone
}

func (d *eventFollower) apply() error {
	if d.gone() {
		return nil
	}
	index := d.blocks.index
	for _, e := range d.changes {
		d.seq++
		e.Epoch, e.Seq = d.epoch, d.seq
		if err := index.Apply(d.r.number, e); err != nil {
			return err
		}
	}
	return nil
}

// byteRate bounds how many bytes are read in a second.
type byteRate struct {
	began time.Time
	bytes int
}

// take notes bytes, and waits where there were too many; false when ctx ends first.
func (p *byteRate) take(ctx context.Context, n int) bool {
	if p.bytes += n; p.bytes < feedBytes {
		return true
	}
	left := time.Second - time.Since(p.began)
	on := left <= 0 || pause(ctx, left)
	*p = byteRate{began: time.Now()}
	return on
}
