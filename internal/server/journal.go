package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"weir/api/admin"
	"weir/api/edge"
)

// journaled lets a journal see what the hooks see, before them.
func journaled(j *admin.Journal, h edge.Hooks) edge.Hooks {
	start, finish, refused := h.OnRequestStart, h.OnRequestFinish, h.OnRefused
	h.OnRequestStart = func(r edge.RequestStart) {
		e := startEntry(&r)
		j.Begin(&e)
		if start != nil {
			start(r)
		}
	}
	h.OnRequestFinish = func(f edge.RequestFinish) {
		e := finishEntry(&f)
		j.End(&e)
		if finish != nil {
			finish(f)
		}
	}
	h.OnRefused = func(r edge.Refusal) {
		if r.Early {
			e := &admin.Entry{
				ID: r.ID, Route: r.Route, Model: r.Model, Version: r.Version, Arm: r.Arm.Name, Tenant: r.Tenant,
				Arrived: r.Arrived, Finished: time.Now(), Status: r.Status, Code: r.Code, Refused: true,
			}
			if r.Moderation != nil {
				e.Findings = findingViews(r.Moderation.Report)
			}
			j.End(e)
		}
		if refused != nil {
			refused(r)
		}
	}
	return h
}

func startEntry(r *edge.RequestStart) admin.Entry {
	return admin.Entry{
		ID: r.ID, Route: r.Endpoint, Model: r.Model, Version: r.Version, Arm: r.Arm.Name, Tenant: r.Tenant, Stream: r.Stream, Prompts: r.Prompts, Choices: r.Prompts * r.N,
		Retries: r.Retries, Prompt: r.PromptTokens, Arrived: r.Arrived,
	}
}

func finishEntry(f *edge.RequestFinish) admin.Entry {
	e := startEntry(&f.RequestStart)
	e.Cached, e.Output, e.First, e.Finished = f.CachedTokens, f.OutputTokens, f.FirstToken, f.Finished
	e.Status, e.Code, e.Limit = f.Status, f.Code, f.Limit
	e.Replica, e.Reason, e.Attempts = f.Replica, f.RouteReason, f.Attempts
	e.Tried = f.Tried
	e.Findings = findingViews(f.Moderated)
	e.Refused = len(f.Reasons) == 0 && f.Status >= http.StatusBadRequest
	return e
}

// states asks the engine and the lane of predictions what their requests do.
func (s *Server) states(ctx context.Context) ([]admin.State, error) {
	states, err := s.engineStates(ctx)
	return append(states, s.predictors.states()...), err
}

func (s *Server) engineStates(ctx context.Context) ([]admin.State, error) {
	var states []admin.State
	var errs []error
	for _, e := range s.languages.engines() { // an encoder's calls are over in one pass or two
		requests, err := e.Requests(ctx)
		errs = append(errs, err)
		for _, r := range requests {
			states = append(states, admin.State{ID: r.ID, State: r.State, Queue: r.Queue, Prefill: r.Prefill, Decode: r.Decode})
		}
	}
	return states, errors.Join(errs...)
}
