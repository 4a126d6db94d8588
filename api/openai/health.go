package openai

import (
	"math"
	"net/http"
	"net/url"

	"weir/api"
	"weir/api/openai/models"
)

// serveHealth is 503 while models load and 200 from then on, also while the server
// drains: the process is well. Whether it takes requests is what ready says. An
// engine that gave up after a fault is not well, so that a liveness probe has the
// process was restarted.
func serveHealth(c *call) *api.Error {
	s := c.server
	switch {
	case s.models.Load() == nil:
		p := s.loading.Load()
		api.WriteJSON(c.ctx, http.StatusServiceUnavailable, loadingJSON{"loading", progressJSON{
			Model: p.Model, DoneBytes: p.DoneBytes, TotalBytes: p.TotalBytes, Fraction: math.Round(1000*p.Fraction()) / 1000,
		}})
	case s.running.IsDraining():
		api.WriteJSON(c.ctx, statusOK, statusJSON{"draining"})
	case !isReady(s.models.Load()):
		api.WriteJSON(c.ctx, http.StatusServiceUnavailable, statusJSON{models.NotReady})
	default:
		api.WriteJSON(c.ctx, statusOK, statusJSON{"ok"})
	}
	return nil
}

// Ready reports whether every model can take requests, and why not.
func (s *Server) Ready() (ready bool, why string) {
	set := s.models.Load()
	switch {
	case s.running.IsDraining():
		return false, "draining"
	case set == nil:
		return false, "loading"
	case !isReady(set):
		return false, models.NotReady
	case s.responses.IsFailing():
		return true, "ready, but the store does not take responses"
	}
	return true, "ready"
}

func serveReady(c *call) *api.Error {
	if query, err := url.ParseQuery(string(c.ctx.QueryArgs().QueryString())); err == nil && api.AsksModels(query) {
		code, answer := c.server.readiness(query, seesModel(c))
		api.WriteJSON(c.ctx, code, answer)
		return nil
	}
	code := statusOK
	ready, why := c.server.Ready()
	if !ready {
		code = http.StatusServiceUnavailable
	}
	api.WriteJSON(c.ctx, code, statusJSON{why})
	return nil
}

func isReady(s *models.Set) bool {
	for _, m := range s.List {
		if m.Upstream == nil && !m.Load().Ready {
			return false
		}
	}
	return true
}

func serveVersion(c *call) *api.Error {
	api.WriteJSON(c.ctx, statusOK, map[string]string{"version": c.server.config.Version})
	return nil
}

type statusJSON struct {
	Status string `json:"status"`
}

type loadingJSON struct {
	Status   string       `json:"status"`
	Progress progressJSON `json:"progress"`
}

type progressJSON struct {
	Model      string  `json:"model"`
	DoneBytes  int64   `json:"done_bytes"`
	TotalBytes int64   `json:"total_bytes"`
	Fraction   float64 `json:"fraction"`
}
