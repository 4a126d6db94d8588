package admin

import (
	"cmp"
	"time"

	"weir/internal/inference"
)

// lifeView is what happened to one prompt of a request, from its arrival on, one stage behind the other.
type lifeView struct {
	Stages []stageView `json:"stages"`
	Left   int         `json:"stages_left_out,omitempty"` // between the first and the last ones
}

// stageView is one stage: what was done, and why where that was waiting.
type stageView struct {
	Stage   string  `json:"stage"` // parse, load, tokenise, waiting, prefill, decode, paused, preempted, compute, route, upstream, send
	From    float64 `json:"from_seconds"`
	Seconds float64 `json:"seconds"`
	Waits   string  `json:"waits_for,omitempty"`
	Gave    string  `json:"gave_way_to,omitempty"`
	Ahead   int     `json:"requests_ahead,omitempty"` // when the stage began
	Replica string  `json:"replica,omitempty"`
	Reason  string  `json:"reason,omitempty"` // why that replica was picked, or why the request was refused
	Failed  string  `json:"failed,omitempty"`
	Now     bool    `json:"now,omitempty"` // it goes on
}

// lifeline adds up the stages of one prompt.
type lifeline struct {
	arrived time.Time
	view    lifeView
}

// add appends a stage, where it took any time or goes on.
func (l *lifeline) add(s stageView, from, to time.Time) {
	if from.IsZero() || to.Before(from) {
		return
	}
	s.From, s.Seconds = max(0, from.Sub(l.arrived).Seconds()), to.Sub(from).Seconds()
	l.view.Stages = append(l.view.Stages, s)
}

// lives are the stages of a request's prompts. states are what engines say of them while they run.
func (e *Entry) lives(states []State, now time.Time) []lifeView {
	end := e.Finished
	if end.IsZero() {
		end = now
	}
	if len(e.Tried) > 0 {
		return []lifeView{e.relayed(end)}
	}
	lived := e.Lived
	for i := range states {
		if len(lived) < mostLives && states[i].Life != nil && e.Status == 0 {
			lived = append(lived, states[i].Life.Lived())
		}
	}
	if len(lived) == 0 {
		lived = []inference.Lived{{}}
	}
	views := make([]lifeView, 0, len(lived))
	for i := range lived {
		l := e.begun(end)
		l.engine(&lived[i], e, end)
		views = append(views, l.view)
	}
	return views
}

// mostLives bounds the prompts whose stages are shown.
const mostLives = 8

// begun has the stages before an engine or another server is asked.
func (e *Entry) begun(end time.Time) *lifeline {
	l := &lifeline{arrived: e.Arrived, view: lifeView{Stages: []stageView{}}}
	if e.Submitted.IsZero() {
		s := stageView{Stage: "parse", Now: e.Status == 0}
		if e.Refused {
			s.Reason = cmp.Or(e.Code, "refused")
		}
		l.add(s, e.Arrived, end)
		return l
	}
	parsed := e.Parsed
	if parsed.IsZero() {
		parsed = e.Submitted
	}
	if e.LoadBegan.IsZero() {
		l.add(stageView{Stage: "parse"}, e.Arrived, parsed)
	} else {
		l.add(stageView{Stage: "parse"}, e.Arrived, e.LoadBegan)
		l.add(stageView{Stage: "load", Waits: "model"}, e.LoadBegan, e.Loaded)
		l.add(stageView{Stage: "parse"}, e.Loaded, parsed)
	}
	if e.Submitted.After(parsed) {
		l.add(stageView{Stage: "tokenise"}, parsed, e.Submitted)
	}
	return l
}

// engine has the stages in an engine, and the time in which the rest of the answer was sent.
func (l *lifeline) engine(lived *inference.Lived, e *Entry, end time.Time) {
	if e.Submitted.IsZero() {
		return
	}
	computed := end
	if e.Status != 0 && e.Last.After(e.Submitted) && e.Last.Before(end) {
		computed = e.Last
	}
	l.view.Left = lived.Left
	for i, m := range lived.Moments {
		until := computed
		if i+1 < len(lived.Moments) {
			until = time.Unix(0, lived.Moments[i+1].At)
		}
		if lived.Left > 0 && i == lived.Gap-1 {
			continue // what followed is not known
		}
		s := stageView{Stage: m.Phase.String(), Waits: m.Cause.String(), Gave: m.Gave.String(), Now: e.Status == 0 && i == len(lived.Moments)-1}
		if m.Phase == inference.PhaseWaiting {
			s.Ahead = int(m.Ahead)
		}
		if i == len(lived.Moments)-1 && e.Refused {
			s.Reason = e.Code
		}
		l.add(s, time.Unix(0, m.At), until)
	}
	if len(lived.Moments) == 0 {
		s := stageView{Stage: "compute", Now: e.Status == 0}
		if e.Refused {
			s.Stage, s.Reason = "waiting", e.Code
		}
		l.add(s, e.Submitted, computed)
	}
	if e.Status != 0 && computed.Before(end) {
		l.add(stageView{Stage: "send"}, computed, end)
	}
}

// relayed has the stages of a request that other servers were asked: between two of them, and before the first, one was chosen.
func (e *Entry) relayed(end time.Time) lifeView {
	l := e.begun(end)
	at := e.Submitted
	for _, a := range e.Tried {
		if a.Began.After(at) {
			l.add(stageView{Stage: "route"}, at, a.Began)
		}
		at = a.Began.Add(a.Took)
		l.add(stageView{Stage: "upstream", Replica: a.Replica, Reason: a.Reason, Failed: a.Failed}, a.Began, at)
	}
	if e.Status != 0 && end.After(at) {
		l.add(stageView{Stage: "send"}, at, end)
	}
	return l.view
}
