package telemetry

import "github.com/prometheus/client_golang/prometheus"

// The ends of a request that asked for a generation, values of label outcome.
// The objectives of package slo count failed and broken as bad, and leave out
// refused, abandoned and cancelled, which are the caller's, and batch, for which no caller waits.
const (
	AnswerComplete  = "complete"  // the whole answer was written
	AnswerRefused   = "refused"   // 4xx before the first byte, a quota's 429 included
	AnswerFailed    = "failed"    // 5xx before the first byte, load that was shed included
	AnswerBroken    = "broken"    // a stream that ended with an error event
	AnswerAbandoned = "abandoned" // the client hung up, or read too slowly
	AnswerCancelled = "cancelled" // the client cancelled a response in the background
	AnswerBatch     = "batch"     // any end of one of the class batch, which is tried again; batches count their lines themselves
)

// Answers count how requests for generations ended. model_name is empty for
// those that were refused before their model was known.
type Answers struct {
	requests *prometheus.CounterVec
	streams  *prometheus.CounterVec
}

func newAnswers() *Answers {
	labels := []string{"model_name", "outcome"}
	a := &Answers{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_requests_total",
			Help: "Requests for a generation that ended, by outcome: complete, refused (4xx), failed (5xx), broken (an error after the first byte), abandoned, cancelled, batch (of that class).",
		}, labels),
		streams: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_streams_total", Help: "Streams that ended, by outcome: complete, broken, abandoned.",
		}, labels),
	}
	a.requests.WithLabelValues("", AnswerRefused)
	a.requests.WithLabelValues("", AnswerFailed)
	return a
}

// add makes the series of a model: a rate of increase needs the 0 before the
// first count.
func (a *Answers) add(model string) {
	for _, outcome := range []string{AnswerComplete, AnswerRefused, AnswerFailed, AnswerBroken, AnswerAbandoned, AnswerCancelled, AnswerBatch} {
		a.requests.WithLabelValues(model, outcome)
	}
	for _, outcome := range []string{AnswerComplete, AnswerBroken, AnswerAbandoned} {
		a.streams.WithLabelValues(model, outcome)
	}
}

// Answer is how a request for a generation ended.
type Answer struct {
	Model   string // a served model; empty: refused before it was known
	Stream  bool   // its first byte was written, and it was a stream
	Outcome string // one of the constants
}

// CountAnswer counts one.
func (a *Answers) CountAnswer(one Answer) {
	a.requests.WithLabelValues(one.Model, one.Outcome).Inc()
	if one.Stream {
		a.streams.WithLabelValues(one.Model, one.Outcome).Inc()
	}
}
