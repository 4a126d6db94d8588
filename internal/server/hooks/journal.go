package hooks

import (
	"net/http"
	"time"

	"weir/api/admin"
	"weir/api/edge"
)

// journalHooks let a journal see which requests run and which ran last.
func journalHooks(j *admin.Journal) edge.Hooks {
	return edge.Hooks{
		OnRequestStart: func(r edge.RequestStart) {
			e := startEntry(&r)
			j.Begin(&e)
		},
		OnRequestFinish: func(f edge.RequestFinish) {
			e := finishEntry(&f)
			j.End(&e)
		},
		OnRefused: func(r edge.Refusal) {
			if !r.Early {
				return
			}
			e := &admin.Entry{
				ID: r.ID, Route: r.Route, Model: r.Model, Version: r.Version, Arm: r.Arm.Name, Tenant: r.Tenant,
				Arrived: r.Arrived, Finished: time.Now(), Status: r.Status, Code: r.Code, Refused: true,
			}
			if r.Moderation != nil {
				e.Findings = findingViews(r.Moderation.Report)
			}
			j.End(e)
		},
	}
}

func startEntry(r *edge.RequestStart) admin.Entry {
	return admin.Entry{
		ID: r.ID, Route: r.Endpoint, Model: r.Model, Version: r.Version, Arm: r.Arm.Name, Tenant: r.Tenant, Stream: r.Stream, Prompts: r.Prompts, Choices: r.Prompts * r.N,
		Retries: r.Retries, Prompt: r.PromptTokens, Arrived: r.Arrived,
		LoadBegan: r.LoadBegan, Loaded: r.Loaded, Parsed: r.Parsed, Submitted: r.Submitted,
	}
}

func finishEntry(f *edge.RequestFinish) admin.Entry {
	e := startEntry(&f.RequestStart)
	e.Cached, e.Output, e.First, e.Finished = f.CachedTokens, f.OutputTokens, f.FirstToken, f.Finished
	e.Status, e.Code, e.Limit = f.Status, f.Code, f.Limit
	e.Replica, e.Reason, e.Attempts = f.Replica, f.RouteReason, f.Attempts
	e.Tried, e.Lived, e.Last = f.Tried, f.Lives, f.LastToken
	e.Findings = findingViews(f.Moderated)
	e.Refused = len(f.Reasons) == 0 && f.Status >= http.StatusBadRequest
	return e
}
