package openai

import (
	"cmp"
	"slices"
	"time"

	"weir/api"
	"weir/api/openai/completion"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/ollama"
	"weir/api/openai/pooling"
	"weir/api/openai/relay"
	"weir/api/tenant"
)

var (
	ollamaChatEndpoint = endpoint{service{routeOllamaChat, relay.PathChat, "chat-", true}, func(r completion.Reader, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
		return ollama.ReadChat(r.ReadChat, o, m)
	}, ollama.NewEncoder, ollama.TranslateChat, idleChat}

	ollamaGenerateEndpoint = endpoint{service{routeOllamaGenerate, relay.PathChat, "gen-", true}, func(r completion.Reader, o *job.Body, m *models.Model) (*job.Job, *api.Error) {
		return ollama.ReadGenerate(r.ReadChat, r.ReadCompletion, o, m)
	}, ollama.NewEncoder, ollama.TranslateGenerate, idleGenerate}

	ollamaEmbedEndpoint = poolingEndpoint{service: service{route: routeOllamaEmbed, prefix: "embd-"}, takes: givesVectors,
		read: func(rules pooling.Rules, o *job.Body, m *models.Model) (*pooling.Request, *api.Error) {
			return ollama.ReadEmbed(rules.ReadEmbedding, o, m)
		}}

	ollamaVectorsEndpoint = poolingEndpoint{service: service{route: routeOllamaVectors, prefix: "embd-"}, takes: givesVectors,
		read: func(rules pooling.Rules, o *job.Body, m *models.Model) (*pooling.Request, *api.Error) {
			return ollama.ReadEmbeddings(rules.ReadEmbedding, o, m)
		}}
)

func idleChat(c *generating, m *models.Model) (bool, *api.Error)     { return idle(c, m, false) }
func idleGenerate(c *generating, m *models.Model) (bool, *api.Error) { return idle(c, m, true) }

// idle answers a request without a prompt: its model is loaded, or leaves memory where the request says keep_alive: 0.
func idle(c *generating, m *models.Model, generates bool) (bool, *api.Error) {
	o := c.asked
	if !ollama.IsEmpty(o) {
		return false, nil
	}
	var fault *api.Error
	name, _ := o.Text("model", &fault)
	keep := ollama.ReadKeepAlive(o.Object, &fault)
	if fault != nil {
		return true, fault
	}
	unloads := keep != nil && *keep == 0 && c.caller.Scope.Has(tenant.ScopeAdmin) // of others it is ignored
	if m.Upstream == nil && !unloads {
		if m.Kind() != models.KindGenerate {
			return true, wrongKind(m)
		}
		if _, fault = c.lease.take(m, o, nil, ""); fault != nil {
			return true, fault
		}
		defer c.lease.release()
	}
	keepAlive(c.call, m, keep, o.Notes)
	warn(c.ctx, o.Notes)
	c.ctx.SetContentType("application/json")
	c.ctx.SetBody(ollama.AppendIdle(nil, name, generates, unloads))
	return true, nil
}

// keepAlive has a model stay in memory for as long as a request says; nil: it does not say. Other tenants use the model, too, so that only a caller
// with the scope of admin decides on it, who on a server without keys is every caller.
func keepAlive(c *call, m *models.Model, keep *time.Duration, n *jsonbody.Notes) {
	if keep == nil {
		return
	}
	catalog := c.server.config.Ollama
	switch {
	case !c.caller.Scope.Has(tenant.ScopeAdmin):
		n.Add("ignored keep_alive: it needs the scope admin, since others use the model, too")
	case catalog == nil || m.Upstream != nil:
		n.Add("ignored keep_alive: the model is computed by other servers")
	default:
		if err := catalog.Keep(m.Base(), c.lease.label, *keep); err != nil {
			n.Add("ignored keep_alive: %v", err)
		}
	}
}

// detailsOf is what is known of a model.
func detailsOf(c *call, m *models.Model) ollama.Details {
	var d ollama.Details
	if catalog := c.server.config.Ollama; catalog != nil {
		d, _ = catalog.Details(m.Base())
	}
	if m.Adapter != nil {
		d.Parent = m.Adapter.Parent
	}
	if d.Modified.IsZero() {
		d.Modified = time.Unix(m.Created, 0).UTC()
	}
	if len(d.Capabilities) == 0 && m.Upstream != nil {
		d.Capabilities = []string{ollama.CanComplete}
	}
	return d
}

// serveOllamaTags answers GET /api/tags.
func serveOllamaTags(c *call) *api.Error {
	set, fault := c.models()
	if fault != nil {
		return fault
	}
	list := make([]ollama.Listed, len(set.List))
	for i, m := range set.List {
		d := detailsOf(c, m)
		list[i] = ollama.List(m.ID, &d)
	}
	api.WriteJSON(c.ctx, statusOK, map[string]any{"models": list})
	return nil
}

// serveOllamaRunning answers GET /api/ps.
func serveOllamaRunning(c *call) *api.Error {
	set, fault := c.models()
	if fault != nil {
		return fault
	}
	list := []ollama.Process{}
	if catalog := c.server.config.Ollama; catalog != nil {
		for _, r := range catalog.Running() {
			if m, ok := set.Find(r.Name); ok {
				d := detailsOf(c, m)
				list = append(list, r.Show(&d))
			}
		}
	}
	slices.SortStableFunc(list, func(a, b ollama.Process) int { return b.ExpiresAt.Compare(a.ExpiresAt) })
	api.WriteJSON(c.ctx, statusOK, map[string]any{"models": list})
	return nil
}

// serveOllamaShow answers POST /api/show.
func serveOllamaShow(c *call) *api.Error {
	o, fault := c.body()
	if fault != nil {
		return fault
	}
	name, _ := o.Text("model", &fault)
	older, _ := o.Text("name", &fault)
	verbose := o.Flag("verbose", false, &fault)
	if name = cmp.Or(name, older); name == "" && fault == nil {
		fault = jsonbody.Missing("model", "the name of a model")
	}
	if fault != nil {
		return fault
	}
	m, fault := c.named(name)
	if fault != nil {
		return fault
	}
	d := detailsOf(c, m)
	var f *ollama.File
	if catalog := c.server.config.Ollama; catalog != nil && d.Architecture != "" {
		var err error
		if f, err = catalog.File(m.Base()); err != nil {
			return internalError("the file of the model " + m.ID + " cannot be read")
		}
		if !verbose {
			f.Shorten()
		}
	}
	api.WriteJSON(c.ctx, statusOK, ollama.Show(m.ID, &d, f))
	return nil
}

// serveOllamaVersion answers GET /api/version.
func serveOllamaVersion(c *call) *api.Error {
	api.WriteJSON(c.ctx, statusOK, map[string]string{"version": ollama.Version})
	return nil
}

// waysOut are what operators do in place of the requests that change models.
var waysOut = map[string]string{
	routeOllamaPull: "weir models pull NAME brings a model into the models folder of this machine, and a server with a store gets it while it runs by weir deploy; with --allow-pull this path pulls, too", "/api/push": "weir models push sends a model to a registry",
	"/api/create": "weir models import brings a file into the models folder", "/api/blobs/{id}": "weir models import brings a file into the models folder",
	"/api/copy": "weir models tag gives a version another name", "/api/delete": "weir models rm takes a version out of the models folder",
}

// notOllamas refuses a request that would change models: that is the operator's, on the command line.
func notOllamas(c *call) *api.Error {
	return api.Refuse("unsupported_operation", c.route.Pattern+" is not served here: "+waysOut[c.route.Pattern])
}
