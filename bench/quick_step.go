package bench

import (
	"context"
	"slices"
	"sync"
	"time"
)

// QuickStep is what so many users saw.
type QuickStep struct {
	Users          int
	Seconds        float64
	Judged, Missed int // requests, and those of them that were not within the goals
	Holds          bool
	TTFT           float64 // seconds to the first text, which 9 of 10 requests were within
	Median         float64 // seconds to the first text, median
	PerUser        float64 // output tokens per second, which 9 of 10 answers had; 0: too few tokens came to tell
	Gap            float64 // seconds between pieces of an answer, median
	Input, Output  float64 // tokens per second of all requests
	Answers        int     // most that came at a time
	Failures       map[string]int
	Failure        string // the first one's text
	Seen           *QuickSeen
}

// quickStepRun is one step while it runs.
type quickStepRun struct {
	q        *Quick
	users    int
	began    time.Time
	steady   float64 // seconds after which requests are judged
	stop     context.CancelFunc
	mu       sync.Mutex
	outcomes []Outcome
	ended    float64 // seconds; 0: it runs
}

// step measures so many users, for as long as it takes to judge, at most most. Users begin one after the other: in a
// server's day they do not come at one moment. What runs at the end is cut off.
func (q *Quick) step(ctx context.Context, users int, most time.Duration, before []QuickStep) QuickStep {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(most, cancel).Stop()
	var spreadOver time.Duration
	if len(before) > 0 {
		last := &before[len(before)-1]
		answer := last.Median + float64(q.Output)*max(last.Gap, 1/max(last.PerUser, 1e-3))
		spreadOver = min(time.Duration(answer*float64(time.Second)), most/3)
	}
	r := &quickStepRun{q: q, users: users, began: time.Now(), stop: cancel}
	if users > 1 {
		r.steady = spreadOver.Seconds() / 2
	}
	var all sync.WaitGroup
	seen := make(chan *QuickSeen, 1)
	go func() { seen <- q.watch(ctx) }()
	for i := range users {
		all.Go(func() { r.user(ctx, time.Duration(i)*spreadOver/time.Duration(users)) })
	}
	<-ctx.Done()
	r.end()
	all.Wait()
	step := r.figures()
	step.Seen = <-seen
	return step
}

// user sends requests until the step is over.
func (r *quickStepRun) user(ctx context.Context, after time.Duration) {
	if !sleepUntil(ctx, r.began.Add(after)) {
		return
	}
	for ctx.Err() == nil {
		ask := r.q.request()
		out := r.q.Target.exchange(ctx, &ask, r.began, false)
		r.note(&out)
		if !out.ok() && !sleepUntil(ctx, time.Now().Add(quickPause)) {
			return
		}
	}
}

// note keeps an outcome and ends the step where enough is known.
func (r *quickStepRun) note(o *Outcome) {
	now := time.Since(r.began).Seconds()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes = append(r.outcomes, *o)
	judged, missed := r.judge(now)
	enough := judged >= max(10, 2*r.users) || judged >= max(5, r.users) && 3*missed > judged
	if enough && now >= quickShortest.Seconds() && r.ended == 0 {
		r.ended = now
		r.stop()
	}
}

// end notes when the step was over.
func (r *quickStepRun) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == 0 {
		r.ended = time.Since(r.began).Seconds()
	}
}

// judge counts the requests that say something, up to now. The caller holds mu.
func (r *quickStepRun) judge(now float64) (judged, missed int) {
	for i := range r.outcomes {
		o := &r.outcomes[i]
		if o.Start < r.steady {
			continue
		}
		if within, known := r.q.within(o, now); known {
			judged++
			if !within {
				missed++
			}
		}
	}
	return judged, missed
}

// within reports whether a request is within the goals; known is false where it was cut off before that could be seen.
func (q *Quick) within(o *Outcome, now float64) (within, known bool) {
	first := o.firstText()
	switch cut := o.Kind == failCancelled; {
	case !o.ok() && !cut:
		return false, true
	case cut && first == 0:
		return false, now-o.Start > q.TTFT.Seconds()
	case first > q.TTFT.Seconds():
		return false, true
	default:
		rate, ok := o.rate(now)
		return rate >= q.PerUser, ok
	}
}

// firstText is the time to what a user sees first; 0: nothing came.
func (o *Outcome) firstText() float64 {
	if o.FirstText > 0 || !o.ok() {
		return o.FirstText
	}
	return o.TTFT // the answer had no text
}

// quickTokens is how many tokens of an answer that was cut off say how fast it came.
const quickTokens = 8

// rate is the output tokens per second after the first; ok is false where too few came.
func (o *Outcome) rate(now float64) (rate float64, ok bool) {
	took, least := o.Latency-o.firstText(), 2
	if !o.ok() {
		took, least = now-o.Start-o.firstText(), quickTokens
	}
	if o.OutputTokens < least {
		return 0, false
	}
	return float64(o.OutputTokens-1) / max(took, 1e-6), true
}

// misses is how many of so many judged requests may be outside of the goals: one in ten, and one of five.
func misses(judged int) int {
	if judged >= 5 {
		return max(1, judged/10)
	}
	return 0
}

// figures are those of the step, which is over.
func (r *quickStepRun) figures() QuickStep {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := QuickStep{Users: r.users, Seconds: r.ended, Failures: map[string]int{}}
	s.Judged, s.Missed = r.judge(r.ended)
	s.Holds = s.Judged > 0 && s.Missed <= misses(s.Judged)
	var firsts, rates, gaps []float64
	for i := range r.outcomes {
		o := &r.outcomes[i]
		if !o.ok() && o.Kind != failCancelled {
			if s.Failures[o.Kind]++; s.Failure == "" {
				s.Failure = o.Error
			}
			continue
		}
		if o.firstText() > 0 {
			s.Input += float64(o.PromptTokens)
			s.Output += float64(o.OutputTokens)
		}
		if o.Start < r.steady {
			continue
		}
		if first := o.firstText(); first > 0 {
			firsts = append(firsts, first)
		} else if waited := r.ended - o.Start; waited > r.q.TTFT.Seconds() {
			firsts = append(firsts, waited)
		}
		if rate, ok := o.rate(r.ended); ok {
			rates, gaps = append(rates, rate), append(gaps, o.ITLs...)
		}
	}
	slices.Sort(firsts)
	slices.Sort(rates)
	slices.Sort(gaps)
	s.TTFT, s.Median, s.PerUser, s.Gap = Percentile(firsts, 90), Percentile(firsts, 50), Percentile(rates, 10), Percentile(gaps, 50)
	s.Input, s.Output = s.Input/max(s.Seconds, 1e-6), s.Output/max(s.Seconds, 1e-6)
	s.Answers = peakAnswers(r.outcomes)
	return s
}

// peakAnswers is the most answers that came at a moment.
func peakAnswers(outcomes []Outcome) int {
	var answers []Outcome
	for i := range outcomes {
		if o := &outcomes[i]; o.firstText() > 0 && o.Latency > o.firstText() {
			answers = append(answers, Outcome{Start: o.Start + o.firstText(), Latency: o.Latency - o.firstText()})
		}
	}
	return peakConcurrent(answers)
}
