package fleet

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/router/balance"
	"weir/router/kvevent"
)

// publisher speaks as the PUB and the ROUTER socket of a vLLM.
type publisher struct {
	t            *testing.T
	live, replay net.Listener

	mu         sync.Mutex
	process    int // counts starts
	next       uint64
	kept       []published // for replays
	readers    []net.Conn
	skipped    func(n uint64) bool // batches that a replay loses on its way
	noEnd      bool                // and its end
	subscribed chan struct{}
	replays    int
}

type published struct {
	n       uint64
	payload []byte
}

func newPublisher(t *testing.T) *publisher {
	t.Helper()
	p := &publisher{t: t, subscribed: make(chan struct{}, 1000)}
	for _, l := range []*net.Listener{&p.live, &p.replay} {
		var err error
		if *l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*l).Close() })
	}
	t.Cleanup(p.cut)
	go p.accept(p.live, "PUB", p.subscriber)
	go p.accept(p.replay, "ROUTER", p.replayTo)
	return p
}

func (p *publisher) events() Events {
	return Events{Endpoint: "tcp://" + p.live.Addr().String(), Replay: "tcp://" + p.replay.Addr().String(), Topic: "kv"}
}

func (p *publisher) accept(l net.Listener, socket string, serve func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			hello := make([]byte, 64)
			hello[0], hello[9], hello[10], hello[11] = 0xff, 0x7f, 3, 1
			copy(hello[12:], "NULL")
			ready := "\x05READY\x0bSocket-Type\x00\x00\x00" + string(rune(len(socket))) + socket
			_, _ = conn.Write(slices.Concat(hello, []byte{4, byte(len(ready))}, []byte(ready)))
			if _, err := io.ReadFull(conn, make([]byte, 64)); err == nil && readFrame(conn) != nil {
				serve(conn)
			}
		}()
	}
}

func readFrame(conn net.Conn) []byte {
	head := make([]byte, 2)
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil
	}
	body := make([]byte, head[1])
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil
	}
	return body
}

func send(conn net.Conn, frames ...[]byte) {
	var out []byte
	for i, f := range frames {
		flags := byte(2)
		if i+1 < len(frames) {
			flags |= 1
		}
		out = binary.BigEndian.AppendUint64(append(out, flags), uint64(len(f)))
		out = append(out, f...)
	}
	_, _ = conn.Write(out) // who reads it notices
}

// subscriber takes in a reader of what is published.
func (p *publisher) subscriber(conn net.Conn) {
	topic := readFrame(conn)
	if topic == nil {
		return // the connection has ended: the fleet closed while it was made
	}
	if string(topic) != "\x01kv" {
		p.t.Errorf("a reader subscribes to %q", topic)
	}
	p.mu.Lock()
	p.readers = append(p.readers, conn)
	p.mu.Unlock()
	p.subscribed <- struct{}{}
}

// replayTo answers a reader of what was published.
func (p *publisher) replayTo(conn net.Conn) {
	defer func() { _, _ = io.Copy(io.Discard, conn) }()
	if empty := readFrame(conn); empty == nil {
		return
	}
	asked := readFrame(conn)
	if len(asked) != 8 {
		return
	}
	from := binary.BigEndian.Uint64(asked)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replays++
	for _, b := range p.kept {
		if b.n >= from && (p.skipped == nil || !p.skipped(b.n)) {
			send(conn, nil, []byte("kv"), binary.BigEndian.AppendUint64(nil, b.n), b.payload)
		}
	}
	if !p.noEnd {
		send(conn, nil, nil, slices.Repeat([]byte{0xff}, 8), nil)
	}
}

// publish sends a batch, unless it gets lost on the way.
func (p *publisher) publish(lost bool, events ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	payload := []byte("\x92\xcb")
	payload = binary.BigEndian.AppendUint64(payload, uint64(p.process)<<32|p.next) // as a time
	payload = append(payload, 0x90|byte(len(events)))
	payload = append(payload, strings.Join(events, "")...)
	p.kept = append(p.kept, published{p.next, payload})
	if !lost {
		for _, conn := range p.readers {
			send(conn, []byte("kv"), binary.BigEndian.AppendUint64(nil, p.next), payload)
		}
	}
	p.next++
}

// forget forgets batches that a replay would tell.
func (p *publisher) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = nil
}

// cut ends all connections of readers.
func (p *publisher) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.readers {
		_ = conn.Close()
	}
	p.readers = nil
}

// restart is another process at the same address, which has published what its first batches hold.
func (p *publisher) restart(batches ...string) {
	p.mu.Lock()
	p.process++
	p.next, p.kept = 0, nil
	p.mu.Unlock()
	for _, b := range batches {
		p.publish(true, b)
	}
	p.cut()
}

const feedBlock = 16

// blocksOf is the event that stores blocks from..to of a prompt of zeros that begins with a number.
func blocksOf(prompt, from, to int) string {
	at := func(i int) string { return string([]byte{0xcd, byte(prompt), byte(i)}) } // an integer of 16 bits
	e := "\x95\xabBlockStored" + string([]byte{0x90 | byte(to-from)})
	for i := from; i < to; i++ {
		e += at(i)
	}
	if from == 0 {
		e += "\xc0"
	} else {
		e += at(from - 1)
	}
	ids := feedPrompt(prompt, to)[from*feedBlock:]
	e += string(binary.BigEndian.AppendUint16([]byte{0xdc}, uint16(len(ids))))
	for _, id := range ids {
		e += string([]byte{byte(id)})
	}
	return e + string([]byte{feedBlock})
}

func removedBlock(prompt, i int) string {
	return "\x92\xacBlockRemoved\x91" + string([]byte{0xcd, byte(prompt), byte(i)})
}

const clearedBlocks = "\x91\xb0AllBlocksCleared"

// feedPrompt are the tokens of so many blocks.
func feedPrompt(prompt, blocks int) []int32 {
	ids := make([]int32, blocks*feedBlock)
	ids[0] = int32(prompt)
	return ids
}

// fed is a fleet whose second replica publishes.
type fed struct {
	*Fleet
	*publisher
	r       *replica
	changes chan Change
}

func newFed(t *testing.T, p *publisher, change func(*Events)) *fed {
	t.Helper()
	a, b := newFake(t, "a", ""), newFake(t, "b", "")
	at := p.events()
	if change != nil {
		change(&at)
	}
	d := &fed{publisher: p, changes: make(chan Change, 1000)}
	var err error
	d.Fleet, err = New(Config{Model: "m", Changed: func(c Change) { d.changes <- c }, Sources: []Source{
		{URL: a.URL + "/v1", Kind: VLLM}, {URL: b.URL + "/v1", Kind: VLLM, Events: at},
	}})
	if err != nil {
		t.Fatal(err)
	}
	d.blocks.rest = time.Microsecond
	for _, r := range d.members.Load().list {
		if r.id == b.id() {
			d.r = r
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { d.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	<-p.subscribed
	return d
}

// holds waits until the index holds prompts of so many blocks, and nothing else.
func (d *fed) holds(blocks map[int]int) {
	d.t.Helper()
	domain := kvevent.Domain(feedBlock, "")
	index := d.balancer.Index()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		sum, right := 0, true
		for prompt, n := range blocks {
			sum += n
			right = right && index.Depth(d.r.number, domain.Chain(nil, feedPrompt(prompt, 15), feedBlock)) == n
		}
		if right && index.Entries(d.r.number) == sum {
			return
		}
		if time.Now().After(end) {
			d.t.Fatalf("%d keys are held, want those of %v", index.Entries(d.r.number), blocks)
		}
	}
}

// shows waits until operators see how events are followed.
func (d *fed) shows(want EventsStatus) {
	d.t.Helper()
	var got EventsStatus
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, s := range d.Status() {
			if s.Events != nil {
				got = *s.Events
			}
		}
		if got == want {
			return
		}
	}
	d.t.Fatalf("operators see %+v, want %+v", got, want)
}

// Prompts go where their blocks are, by what the replica alone has told.
func TestPromptsGoWhereVLLMHasTheirBlocks(t *testing.T) {
	d := newFed(t, newPublisher(t), nil)
	d.publish(false, blocksOf(1, 0, 3), blocksOf(2, 0, 1))
	d.publish(false, blocksOf(1, 3, 5))
	d.holds(map[int]int{1: 5, 2: 1})
	c := call("")
	c.Tokens, c.Domain = feedPrompt(1, 5), "acme"
	for range 10 {
		answer, _, err := take(t, d.Fleet, c)
		if err != nil || answer.Replica != d.r.id || answer.Reason != "prefix 5/5 blocks" {
			t.Fatalf("%+v, %v; %s has the blocks", answer, err, d.r.id)
		}
	}
	d.publish(false, removedBlock(1, 4), removedBlock(1, 3))
	d.holds(map[int]int{1: 3, 2: 1})
	d.publish(false, clearedBlocks, blocksOf(3, 0, 1))
	d.holds(map[int]int{1: 0, 2: 0, 3: 1})
	d.shows(EventsStatus{Whole: true, Blocks: 1, Batches: 4, Relearned: 1})
}

// What was published before the router came is asked for.
func TestEventsFromBeforeTheStart(t *testing.T) {
	p := newPublisher(t)
	p.publish(false, blocksOf(1, 0, 2))
	p.publish(false, blocksOf(1, 2, 4))
	newFed(t, p, nil).holds(map[int]int{1: 4})
}

// Batches that are lost are asked for; without a way to ask, or where they are gone, the cache is relearned.
func TestLostEvents(t *testing.T) {
	d := newFed(t, newPublisher(t), nil)
	d.publish(false, blocksOf(1, 0, 1))
	d.holds(map[int]int{1: 1})
	d.publish(true, blocksOf(1, 1, 2))
	d.publish(true, blocksOf(2, 0, 2))
	d.publish(false, blocksOf(1, 2, 3))
	d.holds(map[int]int{1: 3, 2: 2})
	d.publish(false, blocksOf(1, 3, 4)) // goes on without a gap
	d.holds(map[int]int{1: 4, 2: 2})
	d.publish(true, removedBlock(1, 3))
	d.forget()
	d.publish(false, blocksOf(3, 0, 1))
	d.holds(map[int]int{1: 0, 2: 0, 3: 1})
	d.shows(EventsStatus{Blocks: 1, Batches: 6, Relearned: 2})
}

func TestLostEventsWithoutReplays(t *testing.T) {
	p := newPublisher(t)
	p.publish(false, blocksOf(1, 0, 1))
	d := newFed(t, p, func(e *Events) { e.Replay = "" })
	d.publish(false, blocksOf(2, 0, 2))
	d.holds(map[int]int{2: 2})
	d.publish(false, blocksOf(2, 2, 3))
	d.holds(map[int]int{2: 3})
	d.publish(true, removedBlock(2, 2))
	d.publish(false, blocksOf(3, 0, 1))
	d.holds(map[int]int{3: 1})
	d.cut()
	<-d.subscribed
	d.publish(false, blocksOf(4, 0, 1))
	d.holds(map[int]int{4: 1})
}

// What an engine held before its first event that is known counts as what any replica was given: once an answer has begun, it stays.
func TestPromptsOfEnginesThatDoNotTellAll(t *testing.T) {
	p := newPublisher(t)
	p.publish(false, blocksOf(1, 0, 1))
	p.forget()
	d := newFed(t, p, nil)
	d.publish(false, blocksOf(2, 0, 1))
	d.holds(map[int]int{2: 1})
	keys := kvevent.Domain(feedBlock, "").Chain(nil, feedPrompt(1, 1), feedBlock)
	index := d.balancer.Index()
	index.Put(d.r.number, keys, 0, 0, time.Millisecond)
	index.Confirm(d.r.number, keys)
	index.Expire(time.Hour)
	d.holds(map[int]int{1: 1, 2: 1})
	d.publish(false, clearedBlocks) // from here on all is known
	d.holds(nil)
	index.Put(d.r.number, keys, 0, 0, time.Millisecond)
	index.Confirm(d.r.number, keys)
	index.Expire(time.Hour)
	d.holds(nil)
}

// A replay loses what a ROUTER has no room for, and its end; it is asked again.
func TestReplaysThatLosePieces(t *testing.T) {
	p := newPublisher(t)
	for i := range 12 {
		p.publish(false, blocksOf(1, i, i+1))
	}
	asked := 0
	p.skipped = func(n uint64) bool { // the rest of the first two answers, with their ends
		if n == 0 {
			asked++
		}
		return asked < 2 && n > 3 && n < 9
	}
	d := newFed(t, p, nil)
	p.mu.Lock()
	p.skipped = nil
	p.mu.Unlock()
	d.holds(map[int]int{1: 12})
}

// After a connection broke, what was missed is asked for; where the process is another one, nothing of the old one stays, however far
// the new one has come.
func TestConnectionsThatBreak(t *testing.T) {
	d := newFed(t, newPublisher(t), nil)
	d.publish(false, blocksOf(1, 0, 2))
	d.publish(false, blocksOf(1, 2, 3))
	d.holds(map[int]int{1: 3})
	d.cut()
	d.publish(false, blocksOf(1, 3, 4))
	<-d.subscribed
	d.holds(map[int]int{1: 4})
	for n := range 4 {
		var batches []string
		for i := range 2 * n {
			batches = append(batches, blocksOf(10+n, i, i+1))
		}
		d.restart(batches...)
		<-d.subscribed
		d.holds(map[int]int{1: 0, 10 + n: 2 * n})
		d.publish(false, blocksOf(10+n, 2*n, 2*n+1))
		d.holds(map[int]int{1: 0, 10 + n: 2*n + 1})
	}
}

// Batches that cannot be read make the router forget what it was told, and say why.
func TestEventsThatCannotBeRead(t *testing.T) {
	for _, said := range []string{"\x05", strings.Replace(blocksOf(2, 0, 1), string([]byte{feedBlock}), "\x08", 1), "\x95\xabBlockStored\x91\x01\xc0\x94\x01\x02\x03\x04\x04"} {
		d := newFed(t, newPublisher(t), nil)
		if strings.HasSuffix(said, "\x04\x04") { // blocks of 4 tokens: the first thing that is told
			d.publish(false, said)
		} else {
			d.publish(false, blocksOf(1, 0, 1))
			d.holds(map[int]int{1: 1})
			d.publish(false, said)
		}
		for change := range d.changes {
			if change.What == "block events failed" {
				break
			}
		}
		d.holds(nil)
	}
}

// While a replica is down, the index knows nothing of it. When it is back and tells a change, all that it holds is there again.
func TestIndexThatHasForgotten(t *testing.T) {
	d := newFed(t, newPublisher(t), nil)
	d.publish(false, blocksOf(1, 0, 3))
	d.holds(map[int]int{1: 3})
	d.balancer.Forget(d.r.number)
	d.holds(nil)
	d.publish(false, blocksOf(2, 0, 1))
	d.holds(map[int]int{1: 3, 2: 1})
}

// Engines whose blocks differ in size cannot be told apart by them.
func TestEnginesOfOtherBlockSizes(t *testing.T) {
	f := fleetOf(t, Config{Balance: balance.Config{}}, newFake(t, "a", ""), newFake(t, "b", ""), newFake(t, "c", ""))
	list := f.members.Load().list
	for i, step := range []struct {
		replica int
		root    hashRoots
		want    string
	}{
		{0, hashRoots{blockTokens: 16, told: true}, ""},
		{1, hashRoots{blockTokens: 16, told: true}, ""},
		{2, hashRoots{blockTokens: 32, told: true}, "--block-size"},
		{2, hashRoots{digest: "d", kvType: "f16", blockTokens: 16}, "in one model"},
	} {
		err := f.blocks.agreed(list[step.replica], step.root)
		if (err == nil) != (step.want == "") || err != nil && !strings.Contains(err.Error(), step.want) {
			t.Errorf("step %d: %v", i, err)
		}
	}
}

func TestEndpointsOfAReplica(t *testing.T) {
	for _, c := range []struct {
		kind   Kind
		events Events
		want   string
	}{
		{VLLM, Events{Endpoint: "tcp://*:5557", Replay: "ipc:///run/r"}, "tcp://10.0.0.7:5557 ipc:///run/r"},
		{SGLang, Events{Endpoint: "tcp://kv:5557"}, "tcp://kv:5557 "},
		{VLLM, Events{}, " "},
		{VLLM, Events{Endpoint: "inproc://kv"}, ""},
		{VLLM, Events{Endpoint: "tcp://*:1", Replay: "tcp://*"}, ""},
		{VLLM, Events{Topic: "kv"}, ""},
		{Weir, Events{Endpoint: "tcp://*:1"}, ""},
	} {
		s := Source{URL: "http://10.0.0.7:8000/v1", Kind: c.kind, Events: c.events}
		if err := s.Check(); (err == nil) != (c.want != "") {
			t.Errorf("%+v: %v", c.events, err)
		}
		if c.want == "" {
			continue
		}
		base, err := parseBase(s.Kind, s.URL)
		if err != nil {
			t.Fatal(err)
		}
		r := &replica{target: Target{Base: base, Source: s}}
		if got := r.target.at(c.events.Endpoint) + " " + r.target.at(c.events.Replay); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		if r.target.Address = "fd00::1"; c.events.Endpoint == "tcp://*:5557" && r.target.at(c.events.Endpoint) != "tcp://[fd00::1]:5557" {
			t.Errorf("%q", r.target.at(c.events.Endpoint))
		}
	}
}
