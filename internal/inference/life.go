package inference

// Moment is a turn in a request's life in its engine: what it has done since, and why.
type Moment struct {
	At    int64 // nanoseconds since 1970
	Phase Phase
	Cause Cause // what it waits for
	Gave  Gave  // of a paused or preempted request
	Ahead int32 // requests that went before it then; of a waiting one
}

// Gave says for what a request gave its slot or its KV blocks.
type Gave uint8

// What slots and blocks are given for.
const (
	GaveNothing   Gave = iota
	GaveOlder          // the next tokens of a request that is served before it
	GaveItself         // no block was left for its own next token, and those before it keep theirs
	GaveClass          // a request of a higher class
	GaveGuarantee      // a request of a lower class, which has fewer slots than its class is guaranteed
	GaveTenant         // a request of a tenant that has less than its share
)

func (g Gave) String() string {
	return [...]string{"", "older_request", "itself", "higher_class", "guaranteed_class", "tenant_share"}[min(g, GaveTenant)]
}

// Life is what a request has done in its engine, the oldest first. The zero value is one that has not begun.
type Life struct {
	head  [4]Moment // enough for a request that waits, is prefilled and decodes
	more  []Moment
	count int // of head
	left  int // moments between head and more that are forgotten
}

// maxMoments bounds what is remembered beside the first moments: of a request that is paused again and again, the newest.
const maxMoments = 28

// Note adds a moment, unless nothing has changed since the last one.
func (l *Life) Note(m Moment) {
	if last, ok := l.last(); ok && last.Phase == m.Phase && last.Cause == m.Cause && last.Gave == m.Gave {
		return
	}
	if l.count < len(l.head) {
		l.head[l.count] = m
		l.count++
		return
	}
	if len(l.more) == maxMoments {
		l.left += maxMoments / 2
		l.more = l.more[:copy(l.more, l.more[maxMoments/2:])]
	}
	l.more = append(l.more, m)
}

func (l *Life) last() (m Moment, ok bool) {
	switch {
	case len(l.more) > 0:
		return l.more[len(l.more)-1], true
	case l.count > 0:
		return l.head[l.count-1], true
	}
	return m, false
}

// Lived is a copy of a Life: its moments, the oldest first, and how many are forgotten behind those of index Gap-1.
type Lived struct {
	Moments []Moment
	Gap     int
	Left    int
}

// Lived copies what is remembered.
func (l *Life) Lived() Lived {
	all := make([]Moment, 0, l.count+len(l.more))
	return Lived{Moments: append(append(all, l.head[:l.count]...), l.more...), Gap: l.count, Left: l.left}
}
