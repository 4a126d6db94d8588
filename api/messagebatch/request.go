package messagebatch

import (
	"fmt"
	"io"
	"regexp"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/jsonbody"
)

// MostRequests is how many requests a batch may have.
const MostRequests = 50_000

// customID is what Anthropic's API allows as the name of a request.
var customID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// request is one of a batch.
type request struct {
	id     string
	params []byte // JSON: the body of a request of POST /v1/messages
}

// readRequests reads the body of POST /v1/messages/batches. What the params say is read when their request is run.
func readRequests(body []byte) ([]request, *api.Error) {
	o, fault := jsonbody.Parse(body, true)
	if fault != nil {
		return nil, fault
	}
	raw, ok := o.Take("requests")
	if !ok {
		return nil, jsonbody.Missing("requests", "an array of objects with custom_id and params")
	}
	items, fault := jsonbody.Array("requests", raw, MostRequests)
	switch {
	case fault != nil:
		return nil, fault
	case len(items) == 0:
		return nil, api.RefuseParam("invalid_value", "requests", "requests is empty; send at least one")
	}
	list, seen := make([]request, 0, len(items)), make(map[string]int, len(items))
	for i, item := range items {
		r, fault := readRequest(o, jsonbody.At("requests", i), item)
		if fault != nil {
			return nil, fault
		}
		if first, twice := seen[r.id]; twice {
			return nil, api.RefuseParam("invalid_value", jsonbody.Join(jsonbody.At("requests", i), "custom_id"), "%s is the custom_id of requests[%d] already; each has its own",
				jsonbody.HeaderQuote(r.id), first)
		}
		seen[r.id] = i
		list = append(list, r)
	}
	o.Finish(&fault)
	return list, fault
}

func readRequest(o *jsonbody.Object, path string, raw []byte) (request, *api.Error) {
	item, fault := o.Parse(path, raw, jsonbody.MaxFields)
	if fault != nil {
		return request{}, fault
	}
	r := request{id: item.Need("custom_id", &fault)}
	if fault == nil && !customID.MatchString(r.id) {
		name := jsonbody.Join(path, "custom_id")
		fault = api.RefuseParam("invalid_value", name, "%s is %s; it must be 1 to 64 of the characters a-z, A-Z, 0-9, _ and -", name, jsonbody.HeaderQuote(r.id))
	}
	params, ok := item.Inner("params", &fault)
	if !ok {
		jsonbody.Keep(&fault, jsonbody.Missing(jsonbody.Join(path, "params"), "an object, as the body of POST /v1/messages"))
	} else if params.Flag("stream", false, &fault) {
		jsonbody.Keep(&fault, api.RefuseParam("invalid_value", jsonbody.Join(params.Path, "stream"), "stream is true; answers of a batch are whole, leave it out"))
	}
	item.Finish(&fault)
	if fault == nil {
		r.params = params.AppendJSON(nil)
	}
	return r, fault
}

// writeLines writes requests as lines of a batch's file.
func writeLines(list []request) func(io.Writer) error {
	return func(out io.Writer) error {
		for _, r := range list {
			if _, err := fmt.Fprintf(out, `{"custom_id":%q,"method":"POST","url":%q,"body":%s}`+"\n", r.id, endpoint, oneLine(r.params)); err != nil {
				return err
			}
		}
		return nil
	}
}

// oneLine is JSON without the ends of lines that its client put between values; inside of texts there are none.
func oneLine(text []byte) []byte {
	for i, c := range text {
		if c == '\n' || c == '\r' {
			text[i] = ' '
		}
	}
	return text
}

// endpoint is the path that a batch's requests are for.
const endpoint = "/v1/messages"

func (c *call) create() *api.Error {
	if c.config.Keys == nil {
		return c.order()
	}
	return c.config.Keys.Once(c.ctx, c.caller.Tenant, routeBatches, c.appendFault, c.order)
}

func (c *call) order() *api.Error {
	if fault := edge.IsJSON(&c.ctx.Request.Header); fault != nil {
		return fault
	}
	list, fault := readRequests(c.ctx.PostBody())
	if fault != nil {
		return fault
	}
	b, fault := c.desk().Order(idPrefix, endpoint, len(list), writeLines(list))
	if fault != nil {
		return fault
	}
	api.WriteJSON(c.ctx, 200, objectOf(&b))
	return nil
}
