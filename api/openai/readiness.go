package openai

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/models"
	"weir/api/tenant"
	"weir/router"
)

// answerability says whether a model can answer a request that comes now.
type answerability struct {
	names    []string
	ready    bool
	unloaded bool   // an operator took it away: not asked for where all models are
	why      string // it is not ready
	fallback string // the model that answers in its place
}

// answersOf is what requests to the model find: its own lane, or the first fallback that can answer. Fallbacks of
// fallbacks are not asked, as requests do not ask them.
func answersOf(s *models.Set, m *models.Model) answerability {
	a := answerability{names: m.Names()}
	if a.ready, a.why = m.Ready(); a.ready {
		return a
	}
	for _, name := range m.Fallback {
		next, ok := s.Find(name)
		if !ok || next.ID == m.ID || next.Upstream == nil && next.Kind() != models.KindGenerate {
			continue
		}
		if ready, _ := next.Ready(); ready {
			a.ready, a.fallback = true, next.ID
			break
		}
	}
	return a
}

// answering lists what is known of all models, those of other lanes included.
func (s *Server) answering(set *models.Set) []answerability {
	list := make([]answerability, 0, len(set.List))
	for _, m := range set.List {
		list = append(list, answersOf(set, m))
	}
	if s.config.Classical == nil {
		return list
	}
	for _, m := range s.config.Classical() {
		list = append(list, answerability{names: []string{m.Name}, ready: m.Ready, unloaded: m.Unloaded, why: m.Reason})
	}
	return list
}

// ModelReady reports whether a language model can answer a caller, and whether the caller has one of this name.
func (s *Server) ModelReady(caller *tenant.Caller, name string) (ready, known bool) {
	set := s.models.Load()
	if set == nil {
		return false, false
	}
	m, ok := set.Of(caller).ByName[name]
	if !ok {
		return false, false
	}
	return !s.running.IsDraining() && answersOf(set, m).ready, true
}

// readyJSON answers GET /ready.
type readyJSON struct {
	Status    string         `json:"status"`
	Models    []modelWhyJSON `json:"models,omitempty"` // that cannot answer
	Fallbacks []fallbackJSON `json:"fallbacks,omitempty"`
}

type modelWhyJSON struct {
	Model  string `json:"model"`
	Reason string `json:"reason"`
}

type fallbackJSON struct {
	Model    string `json:"model"`
	Fallback string `json:"fallback"` // answers in its place
}

// Readiness answers GET /ready?deep, which is about all models, and ?model=NAME, for an operator, who may see all names.
func (s *Server) Readiness(query url.Values) (status int, answer any) {
	return s.readiness(query, func([]string) bool { return true })
}

// readiness is 503 where a model of the query cannot answer, and 404 where one is not served. sees says
// whether who asks may read the names of a model that the query does not name.
func (s *Server) readiness(query url.Values, sees func(names []string) bool) (status int, answer any) {
	set := s.models.Load()
	switch {
	case s.running.IsDraining():
		return http.StatusServiceUnavailable, statusJSON{"draining"}
	case set == nil:
		return http.StatusServiceUnavailable, statusJSON{"loading"}
	}
	all := s.answering(set)
	var asked []answerability
	for _, name := range query["model"] {
		i := slices.IndexFunc(all, func(a answerability) bool { return slices.Contains(a.names, name) })
		if i < 0 {
			return http.StatusNotFound, statusJSON{fmt.Sprintf("no model %.100q is served; GET /v1/models lists those that are", name)}
		}
		asked = append(asked, all[i])
	}
	named := len(asked)
	if api.AsksDeep(query) {
		asked = append(asked, slices.DeleteFunc(all, func(a answerability) bool { return a.unloaded })...)
	}
	return report(asked, named, sees)
}

// report is the answer for models of which the first so many were asked for by name.
func report(asked []answerability, named int, sees func(names []string) bool) (status int, answer any) {
	var r readyJSON
	var failed []string
	hidden := 0
	for i, a := range asked {
		name := a.names[0]
		switch {
		case a.ready && a.fallback == "", slices.ContainsFunc(asked[:i], func(b answerability) bool { return b.names[0] == name }):
		case sees(a.names) && a.ready:
			r.Fallbacks = append(r.Fallbacks, fallbackJSON{name, a.fallback})
		case a.ready:
		case sees(a.names):
			failed = append(failed, name)
			r.Models = append(r.Models, modelWhyJSON{name, a.why})
		case i < named:
			failed = append(failed, name)
		default:
			hidden++
		}
	}
	if len(failed) == 0 && hidden == 0 {
		r.Status = "ready"
		return statusOK, r
	}
	if len(failed) > 0 {
		r.Status = "cannot answer: " + strings.Join(failed, ", ")
	}
	if hidden > 0 {
		r.Status = strings.TrimPrefix(r.Status+fmt.Sprintf("; models that cannot answer: %d; /ready?deep with an API key that may use them names them", hidden), "; ")
	}
	return http.StatusServiceUnavailable, r
}

// seesModel says which models the caller of a path that asks for no key may read the names of: those that
// its key, if it shows one, may use.
func seesModel(c *call) func(names []string) bool {
	var caller tenant.Caller
	asked, known := false, false
	return func(names []string) bool {
		if !asked {
			asked = true
			var fault *api.Error
			caller, fault, _ = edge.Identify(c.server.callers, edge.ProofOf(&c.ctx.Request.Header, api.Peer(c.ctx), true))
			known = fault == nil
		}
		return known && caller.MayUse(names...)
	}
}

// hasClassical reports whether a name is that of a classical model that the caller may use.
func (s *Server) hasClassical(caller *tenant.Caller, name string) bool {
	return s.config.Classical != nil && caller.MayUse(name) &&
		slices.ContainsFunc(s.config.Classical(), func(m router.ModelState) bool { return m.Name == name })
}
