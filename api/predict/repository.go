package predict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"weir/api"
	"weir/api/edge"
	"weir/internal/inference"
	"weir/router"
)

// indexJSON is an entry of Triton's repository index.
type indexJSON struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	State   string `json:"state,omitempty"`
	Reason  string `json:"reason"`
}

// visible are the models that a job's caller may use.
func (s *Server) visible(j *job) []router.ModelState {
	var list []router.ModelState
	for _, m := range s.config.Models.Index() {
		if j.Caller.MayUse(m.Name) {
			list = append(list, m)
		}
	}
	return list
}

// index lists versions as Triton does; ready leaves the others out.
func (s *Server) index(j *job, ready bool) []indexJSON {
	list := []indexJSON{}
	for _, m := range s.visible(j) {
		state := "READY"
		if !m.Ready {
			state = "UNAVAILABLE"
		}
		if m.Ready || !ready {
			list = append(list, indexJSON{m.Name, m.Version, state, m.Reason})
		}
	}
	return list
}

// repositoryIndex answers POST /v2/repository/index.
func (c *call) repositoryIndex() *api.Error {
	ready, fault := false, (*api.Error)(nil)
	if s := (scanner{b: c.Ctx.Request.Body()}); s.peek() != 0 {
		fault = s.fields(func(name []byte) (fault *api.Error) {
			if string(name) == "ready" {
				ready, fault = s.boolean("ready")
				return fault
			}
			field := string(name)
			if fault = s.ignore(); fault == nil {
				fault = c.warn(c.config.Strict, quote(field))
			}
			return fault
		})
		if fault == nil {
			fault = s.end()
		}
	}
	if fault != nil {
		return fault
	}
	return c.json(c.index(&c.job, ready))
}

// loadModel answers Triton's request to load a model. What to load is in the server's
// configuration: a request that brings files or a configuration is refused.
func (c *call) loadModel() *api.Error {
	fault := noParameters(c.Ctx.Request.Body(), "load")
	if fault == nil {
		fault = c.change(&c.job, "load", c.Params.Name, c.Ctx.RemoteAddr().String())
	}
	return fault
}

func (c *call) unloadModel() *api.Error {
	fault := noParameters(c.Ctx.Request.Body(), "unload", "unload_dependents")
	if fault == nil {
		fault = c.change(&c.job, "unload", c.Params.Name, c.Ctx.RemoteAddr().String())
	}
	return fault
}

// noParameters refuses a body with parameters other than those named, which change
// nothing here.
func noParameters(body []byte, what string, harmless ...string) *api.Error {
	s := scanner{b: body}
	if s.peek() == 0 {
		return nil
	}
	fault := s.fields(func(field []byte) *api.Error {
		if string(field) != "parameters" {
			return api.Refuse("unknown_parameter", fmt.Sprintf("unknown field %s; %s takes only parameters", quote(field), what))
		}
		return s.fields(func(name []byte) *api.Error {
			if slices.Contains(harmless, string(name)) {
				return s.ignore()
			}
			return unsupportedRepository(string(name), what)
		})
	})
	if fault == nil {
		fault = s.end()
	}
	return fault
}

func unsupportedRepository(name, what string) *api.Error {
	e := api.Refuse("unsupported_parameter", fmt.Sprintf("the parameter %s of %s is not supported: models and their files are those of the server's configuration",
		quote(name), what))
	e.Param = shorten(name)
	return e
}

// change loads or unloads a model, for a caller at an address.
func (s *Server) change(j *job, what, model, address string) *api.Error {
	do := s.config.Models.Load
	if what == "unload" {
		do = s.config.Models.Unload
	}
	by := cmp.Or(j.Caller.By(address), "repository API, from "+address)
	switch err := do(context.Background(), model, by); {
	case err == nil:
		return nil
	case isUnknown(err):
		return api.Refuse("model_not_found", fmt.Sprintf("model %s is not in the server's configuration; POST /v2/repository/index lists what is", quote(model)))
	case errors.Is(err, inference.ErrUnavailable), errors.Is(err, inference.ErrInvalid):
		return edge.Fault(err)
	default:
		return api.Refuse("invalid_value", fmt.Sprintf("%s model %s: %v", what, quote(model), err))
	}
}
