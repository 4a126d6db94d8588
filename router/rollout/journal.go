package rollout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"
)

// StoredAnswer is an answer whose outcome may be told later, on any server of the store.
type StoredAnswer struct {
	Key  string // of its id and whose it is: AnswerKey
	Home string // the rollout's record of the server that gave the answer; outcomes count there
	Arm  Arm
	Step int
	At   time.Time // when it was given, which tells it from another answer of the same id
}

// StoredSignal is an outcome that was told of a kept answer.
type StoredSignal struct {
	Key   string // of the answer
	Kind  SignalKind
	Value float64
}

// UncountedOutcome is an outcome that its home has not counted yet.
type UncountedOutcome struct {
	Key    string // of the answer
	Arm    Arm
	Step   int
	Kind   SignalKind
	Value  float64
	Before *float64 // what it has counted; nil: nothing
}

// AnswerStore keeps answers and their outcomes where several servers see them, bounded in rows and age.
type AnswerStore interface {
	// SaveAnswers keeps answers. An id that is used again is that of the last one; an answer that is kept already stays as it is,
	// with its outcomes.
	SaveAnswers(ctx context.Context, list []StoredAnswer) error
	// FindAnswer gives the outcomes of an answer; false: the answer is not known.
	FindAnswer(ctx context.Context, key string) (told map[SignalKind]float64, ok bool, err error)
	// TellAnswers keeps outcomes, all or none. Those of unknown answers are left out.
	TellAnswers(ctx context.Context, list []StoredSignal) error
	// CountOutcomes calls count with the outcomes that a home has not counted, if there are any. It keeps the home's record that
	// count gives, and that they are counted: both or neither.
	CountOutcomes(ctx context.Context, home string, at time.Time, count func([]UncountedOutcome) (StoredRecord, error)) error
	// SaveRollout keeps a home's record. Errors wrap ErrElsewhere where another process has the rollout.
	SaveRollout(ctx context.Context, home string, at time.Time, r StoredRecord) error
	// ForgetRollout deletes a home's answers; their outcomes are refused from then on.
	ForgetRollout(ctx context.Context, home string) error
}

// StoredRecord is what is kept of a rollout. While it is under way, it is the process's that keeps it.
type StoredRecord struct {
	State State
	JSON  []byte
}

// ErrElsewhere says that another process goes on with a rollout.
var ErrElsewhere = errors.New("another server goes on with the rollout")

// AnswerKey is a digest of an answer's id and its tenant, so that a tenant reports outcomes of its own answers only and no id is kept.
func AnswerKey(tenant, id string) string {
	sum := sha256.Sum256([]byte(tenant + "\x00" + id))
	return hex.EncodeToString(sum[:16])
}

// Journal keeps in a store which arm gave an answer, and the answer's outcomes, so that every server on the store takes an
// outcome and a server that was killed still knows its answers. Answers are written each second, beside the requests; an
// outcome is in the store before it is acknowledged. The server that gave the answer counts it within the next second, and the
// record of the rollout that has it is kept with the note that it is counted, so that a kill between the two loses none.
type Journal struct {
	store   AnswerStore
	control *Controller
	home    func(rollout string) string

	mu      sync.Mutex
	waiting map[string]StoredAnswer // by key: not written yet
	inHand  map[string]StoredAnswer // those that are being written
	dropped int                     // because too many waited

	writing sync.Mutex // one flush at a time, so that an answer that is being written is waited for
	told    chan *toldOutcome

	saving sync.Mutex                      // a record is made and kept before the next one, which has all that it has
	unsure map[string]map[keptWord]float64 // by rollout: what the record in memory has counted, and the store may not have kept
}

// keptWord is of which answer, and of what, an outcome tells.
type keptWord struct {
	key  string
	kind SignalKind
}

// toldOutcome is an outcome that waits to be written.
type toldOutcome struct {
	StoredSignal
	done chan error
}

const (
	// journalEvery is how often answers are written: what a cut loses.
	journalEvery = time.Second
	// maxWaiting bounds the outcomes that wait, and outcomeBatch those of one transaction.
	maxWaiting   = 1024
	outcomeBatch = 256
	// outcomeTimeout bounds how long an outcome waits for the store.
	outcomeTimeout = 5 * time.Second
)

// ErrBusyJournal says that an outcome cannot be kept now.
var ErrBusyJournal = errors.New("the store of outcomes does not keep up")

// NewJournal keeps a controller's answers from now on. home is what this server keeps a rollout under.
func NewJournal(store AnswerStore, control *Controller, home func(rollout string) string) *Journal {
	j := &Journal{
		store: store, control: control, home: home, waiting: make(map[string]StoredAnswer), told: make(chan *toldOutcome, maxWaiting),
		unsure: make(map[string]map[keptWord]float64),
	}
	control.keep = j.note
	return j
}

// note takes an answer in; it never waits.
func (j *Journal) note(o *Outcome, step int) {
	a := StoredAnswer{Key: AnswerKey(o.Tenant, o.ID), Home: j.home(o.Rollout), Arm: o.Arm, Step: step, At: time.Now()}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.waiting) >= maxAnswers {
		j.dropped++
		return
	}
	j.waiting[a.Key] = a
}

// Run writes until ctx ends. It calls changed with the transitions that outcomes cause, and failed with errors of the store.
func (j *Journal) Run(ctx context.Context, changed func([]Transition), failed func(error)) {
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			select {
			case w := <-j.told:
				j.write(ctx, w)
			case <-ctx.Done():
				return
			}
		}
	})
	tick := time.NewTicker(journalEvery)
	defer tick.Stop()
	for open := true; open; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			open = false
		}
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTimeout)
		list, err := j.work(limited)
		cancel()
		changed(list)
		if err != nil {
			failed(err)
		}
	}
	ended.Wait()
}

// work writes the answers that wait and counts the outcomes of this server's.
func (j *Journal) work(ctx context.Context) (changes []Transition, err error) {
	err = j.flush(ctx)
	for id := range j.control.Seen() {
		list, more := j.count(ctx, id)
		changes, err = append(changes, list...), errors.Join(err, more)
	}
	return changes, err
}

// count counts the outcomes of a rollout's answers that are new.
func (j *Journal) count(ctx context.Context, id string) (changes []Transition, err error) {
	j.saving.Lock()
	defer j.saving.Unlock()
	now := time.Now()
	err = j.store.CountOutcomes(ctx, j.home(id), now, func(list []UncountedOutcome) (StoredRecord, error) {
		for i := range list {
			changes = append(changes, j.countOne(id, now, &list[i])...)
		}
		return j.control.Record(id, now)
	})
	if err == nil {
		delete(j.unsure, id)
	}
	return changes, err
}

// countOne counts an outcome, unless it was counted and the store did not say that it has kept so.
func (j *Journal) countOne(id string, now time.Time, u *UncountedOutcome) []Transition {
	word := keptWord{u.Key, u.Kind}
	if value, counted := j.unsure[id][word]; counted {
		u.Before = &value
	}
	if u.Before != nil && *u.Before == u.Value {
		return nil
	}
	if j.unsure[id] == nil {
		j.unsure[id] = make(map[keptWord]float64)
	}
	j.unsure[id][word] = u.Value
	return j.control.count(id, now, u)
}

// Save keeps where a rollout stands and what was seen of both arms. at is when it changed last.
func (j *Journal) Save(ctx context.Context, id string, at time.Time) error {
	j.saving.Lock()
	defer j.saving.Unlock()
	record, err := j.control.Record(id, time.Now())
	if err != nil {
		return err
	}
	return j.store.SaveRollout(ctx, j.home(id), at, record)
}

// flush writes the answers that wait. Those that cannot be written wait for the next time.
func (j *Journal) flush(ctx context.Context) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	batch, dropped := j.waiting, j.dropped
	j.waiting, j.inHand, j.dropped = make(map[string]StoredAnswer), batch, 0
	j.mu.Unlock()
	list := make([]StoredAnswer, 0, len(batch))
	for _, a := range batch {
		list = append(list, a)
	}
	var err error
	if dropped > 0 {
		err = fmt.Errorf("%w: outcomes of %d answers will be refused", ErrBusyJournal, dropped)
	}
	if len(list) == 0 {
		return err
	}
	failure := j.store.SaveAnswers(ctx, list)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inHand = nil
	for key, a := range batch {
		if _, newer := j.waiting[key]; failure != nil && !newer && len(j.waiting) < maxAnswers {
			j.waiting[key] = a
		}
	}
	return errors.Join(err, failure)
}

// Forget deletes this server's answers of a rollout; their outcomes are refused from then on.
func (j *Journal) Forget(ctx context.Context, rollout string) error {
	home := j.home(rollout)
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	for key, a := range j.waiting {
		if a.Home == home {
			delete(j.waiting, key)
		}
	}
	j.mu.Unlock()
	return j.store.ForgetRollout(ctx, home)
}

// Tell keeps an outcome of an answer that any server on the store gave. The same outcome told again changes nothing; another
// one replaces it.
func (j *Journal) Tell(ctx context.Context, s *Signal) error {
	if err := s.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, outcomeTimeout)
	defer cancel()
	w := &toldOutcome{StoredSignal{AnswerKey(s.Tenant, s.ID), s.Kind, s.Value}, make(chan error, 1)}
	told, known, err := j.find(ctx, w.Key)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBusyJournal, err)
	}
	if !known {
		return fmt.Errorf("%w: %.80q", ErrUnknownAnswer, s.ID)
	}
	if value, again := told[s.Kind]; again && value == s.Value {
		return nil
	}
	select {
	case j.told <- w:
	default:
		return fmt.Errorf("%w: %d wait", ErrBusyJournal, maxWaiting)
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrBusyJournal, ctx.Err())
	}
}

// find looks an answer up; one that waits is written first.
func (j *Journal) find(ctx context.Context, key string) (told map[SignalKind]float64, known bool, err error) {
	j.mu.Lock()
	_, waits := j.waiting[key]
	_, inHand := j.inHand[key]
	j.mu.Unlock()
	if waits || inHand {
		if err := j.flush(ctx); err != nil {
			return nil, false, err
		}
	}
	return j.store.FindAnswer(ctx, key)
}

// write keeps an outcome and those that have come meanwhile, in one transaction.
func (j *Journal) write(ctx context.Context, first *toldOutcome) {
	batch := []*toldOutcome{first}
	for more := true; more && len(batch) < outcomeBatch; {
		select {
		case w := <-j.told:
			batch = append(batch, w)
		default:
			more = false
		}
	}
	list := make([]StoredSignal, len(batch))
	for i, w := range batch {
		list[i] = w.StoredSignal
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTimeout)
	defer cancel()
	err := j.store.TellAnswers(limited, list)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrBusyJournal, err)
	}
	for _, w := range batch {
		w.done <- err
	}
}
