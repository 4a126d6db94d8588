package openai

import (
	"encoding/json"
	"net/http"

	"weir/api"
)

// invocations are the requests that POST /invocations takes, by a field that tells each from those behind it.
var invocations = []struct {
	field string
	serve func(*call) *api.Error
}{
	{"messages", generated(&chatEndpoint)},
	{"prompt", generated(&completionEndpoint)},
	{"query", pooled(&rerankEndpoint)},
	{"text_1", pooled(&scoreEndpoint)},
	{"queries", pooled(&scoreEndpoint)},
	{"data_1", pooled(&scoreEndpoint)},
	{"input", pooled(&embeddingEndpoint)},
}

// serveInvocation answers POST /invocations, under which SageMaker sends whatever a model serves, as vLLM does.
func serveInvocation(c *call) *api.Error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(c.ctx.PostBody(), &fields); err != nil {
		return api.Refuse("invalid_json", "the body is no JSON object: "+err.Error())
	}
	for _, i := range invocations {
		if _, ok := fields[i.field]; ok {
			return i.serve(c)
		}
	}
	return api.Refuse("missing_required_parameter", "the body is of no request that is known here; send that of /v1/chat/completions (messages), /v1/completions (prompt), "+
		"/v1/embeddings (input), /v1/rerank (query, documents) or /v1/score (text_1, text_2)")
}

// serveLoad answers GET /load, by which balancers of vLLM see how many sequences run and wait here.
func serveLoad(c *call) *api.Error {
	n := 0
	if set := c.server.models.Load(); set != nil {
		for _, m := range set.List {
			if m.Upstream == nil { // of others their own servers know
				l := m.Load()
				n += l.Running + l.Waiting
			}
		}
	}
	api.WriteJSON(c.ctx, http.StatusOK, map[string]int{"server_load": n})
	return nil
}
