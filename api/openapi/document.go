package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weir/api"
	"weir/api/edge"
)

// Document is the OpenAPI document of routes. A route without an entry is told by its path and methods alone.
func Document(routes []*edge.Route, version string) ([]byte, error) {
	d := document{paths: map[string]map[string]any{}, used: map[string]bool{}, ids: map[string]bool{}, told: map[string]bool{}}
	for _, rt := range routes {
		if !rt.Unknown && !strings.Contains(rt.Pattern, "{unknown}") {
			d.add(rt)
		}
	}
	text, err := json.Marshal(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "weir", "version": version, "summary": "Language models, text encoders and classical models over one API",
			"description": "Every answer has the header fields `x-request-id` and, where something of a request was left out or done otherwise, `x-weir-warnings`. " +
				"Every error has `x-weir-reason`, its code; docs/errors.md lists what each code means.",
			"license": map[string]any{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		"servers": []any{map[string]any{"url": "/", "description": "This server"}},
		"tags":    d.tags(),
		"paths":   d.paths,
		"components": map[string]any{
			"schemas": allSchemas(), "responses": d.faults(), "headers": headers,
			"securitySchemes": map[string]any{
				"key":    map[string]any{"type": "http", "scheme": "bearer", "description": "A key or token of the caller's. Servers on loopback may ask for none."},
				"apiKey": map[string]any{"type": "apiKey", "in": "header", "name": "x-api-key", "description": "The same, as Anthropic's clients send it."},
			},
		},
		"security": []any{map[string]any{"key": []string{}}, map[string]any{"apiKey": []string{}}},
	})
	if err != nil {
		return nil, fmt.Errorf("write the OpenAPI document: %w", err)
	}
	return append(text, '\n'), nil
}

func allSchemas() map[string]Schema {
	all := maps.Clone(schemas)
	maps.Copy(all, otherSchemas)
	return all
}

// document is one in the making.
type document struct {
	paths map[string]map[string]any
	used  map[string]bool // groups
	ids   map[string]bool // of operations
	told  map[string]bool // error answers
}

func (d *document) tags() (list []any) {
	for _, g := range groups {
		if d.used[g.name] {
			list = append(list, map[string]any{"name": g.name, "description": g.about})
		}
	}
	return list
}

// pathVariable is a part of a path that requests fill in.
var pathVariable = regexp.MustCompile(`\{([a-z_]+)\}`)

// add adds the operations of a route.
func (d *document) add(rt *edge.Route) {
	if to, ok := same["GET "+rt.Pattern]; ok && pathVariable.ReplaceAllString(to, "{}") == "GET "+pathVariable.ReplaceAllString(rt.Pattern, "{}") {
		return // two templates of one path are none in OpenAPI
	}
	item := d.paths[rt.Pattern]
	if item == nil {
		item = map[string]any{}
		d.paths[rt.Pattern] = item
	}
	var parameters []any
	for _, m := range pathVariable.FindAllStringSubmatch(rt.Pattern, -1) {
		parameters = append(parameters, map[string]any{"name": m[1], "in": "path", "required": true, "schema": Schema{"type": "string"}})
	}
	if parameters != nil {
		item["parameters"] = parameters
	}
	for _, method := range rt.Methods {
		o, _ := find(method, rt.Pattern)
		item[strings.ToLower(method)] = d.operation(rt, method, &o)
	}
}

func (d *document) operation(rt *edge.Route, method string, o *Operation) map[string]any {
	out := map[string]any{"operationId": d.id(method, rt.Pattern), "summary": o.Summary, "responses": d.responses(rt, method, o)}
	if o.More != "" {
		out["description"] = o.More
	}
	if o.Group != "" {
		d.used[o.Group] = true
		out["tags"] = []string{o.Group}
	}
	if rt.Open {
		out["security"] = []any{}
	}
	var query []any
	for _, q := range o.Query {
		query = append(query, map[string]any{"name": q.Name, "in": "query", "description": q.About, "schema": q.Schema})
	}
	if query != nil {
		out["parameters"] = query
	}
	if o.Body != nil {
		kind := o.BodyKind
		if kind == "" {
			kind = jsonKind
		}
		out["requestBody"] = map[string]any{"required": true, "content": map[string]any{kind: map[string]any{"schema": o.Body}}}
	}
	return out
}

const jsonKind = "application/json"

// id is a name of an operation that is no other's: postV1ChatCompletions.
func (d *document) id(method, pattern string) string {
	var words strings.Builder
	words.WriteString(strings.ToLower(method))
	for _, part := range strings.FieldsFunc(pattern, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') }) {
		words.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	name := words.String()
	for d.ids[name] {
		name += "2"
	}
	d.ids[name] = true
	return name
}

// responses are the answers of an operation by status.
func (d *document) responses(rt *edge.Route, method string, o *Operation) map[string]any {
	kind := o.Kind
	if kind == "" {
		kind = jsonKind
	}
	answer := o.Answer
	if answer == nil {
		answer = Schema{}
	}
	content := map[string]any{kind: map[string]any{"schema": answer}}
	if o.Streams {
		content["text/event-stream"] = map[string]any{"schema": Schema{"type": "string", "description": "With stream: true, server-sent events"}}
	}
	if o.Lines {
		content["application/x-ndjson"] = map[string]any{"schema": Schema{"type": "string", "description": "While it streams, one JSON object a line"}}
	}
	all := map[string]any{"200": map[string]any{"description": "The answer", "content": content,
		"headers": map[string]any{"x-request-id": headerRef("RequestID"), "x-weir-warnings": headerRef("Warnings")}}}
	statuses := []int{http.StatusInternalServerError, http.StatusServiceUnavailable}
	if !rt.Open {
		statuses = append(statuses, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests)
	}
	if o.Body != nil || len(o.Query) > 0 {
		statuses = append(statuses, http.StatusBadRequest)
	}
	if o.Body != nil || len(o.Query) > 0 || strings.Contains(rt.Pattern, "{") || rt.Infers { // which may name what is not there
		statuses = append(statuses, http.StatusNotFound)
	}
	if !rt.Open && (o.Body != nil || method != http.MethodGet || o.Group == groupBatches || o.Group == groupAnthropic || o.Group == groupLlama) {
		statuses = append(statuses, http.StatusNotImplemented)
	}
	if o.Body != nil {
		statuses = append(statuses, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if rt.Infers {
		statuses = append(statuses, http.StatusRequestTimeout, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusBadGateway)
	} else if method == http.MethodDelete || method == http.MethodPost {
		statuses = append(statuses, http.StatusConflict)
	}
	for _, status := range statuses {
		name := prefixOf(o) + strconv.Itoa(status)
		d.told[name] = true
		all[strconv.Itoa(status)] = map[string]any{"$ref": "#/components/responses/" + name}
	}
	return all
}

func headerRef(name string) map[string]any {
	return map[string]any{"$ref": "#/components/headers/" + name}
}

// form is how the errors of an API look: what begins the names of the answers, the name of the schema, and the media type.
type form struct{ prefix, schema, kind string }

var forms = []form{
	{"Fault", "Fault", jsonKind}, {"Messages", "MessagesFault", jsonKind}, {"Predict", "PredictFault", jsonKind}, {"Ollama", "OllamaFault", jsonKind},
	{"State", "StateFault", jsonKind}, {"Page", "PageFault", "text/plain"},
}

// prefixOf begins the names of the error answers of an operation, which have the form of its API.
func prefixOf(o *Operation) string {
	switch o.Group {
	case groupAnthropic:
		return "Messages"
	case groupPredict:
		return "Predict"
	case groupOllama:
		return "Ollama"
	}
	switch {
	case o.State:
		return "State"
	case o.Kind == "text/html":
		return "Page"
	}
	return "Fault"
}

// faults are the error answers that operations have, by form and status.
func (d *document) faults() map[string]any {
	codes := map[int][]string{}
	for code, r := range api.Refusals {
		codes[r.Status] = append(codes[r.Status], code)
	}
	all := map[string]any{}
	for status, list := range codes {
		slices.Sort(list)
		for _, f := range forms {
			name := f.prefix + strconv.Itoa(status)
			if !d.told[name] {
				continue
			}
			all[name] = map[string]any{
				"description": strings.TrimPrefix(http.StatusText(status)+": "+strings.Join(list, ", "), ": "),
				"content":     map[string]any{f.kind: map[string]any{"schema": named(f.schema)}},
				"headers": map[string]any{
					"x-request-id": headerRef("RequestID"), "x-should-retry": headerRef("ShouldRetry"), "retry-after-ms": headerRef("RetryAfter"),
					"x-weir-reason": map[string]any{"description": "The error's code", "schema": words("", list...)},
				},
			}
		}
	}
	return all
}

var headers = map[string]any{
	"RequestID":   map[string]any{"description": "The client's name for the request, or the server's", "schema": text("")},
	"Warnings":    map[string]any{"description": "What of the request was ignored or done otherwise", "schema": text("")},
	"ShouldRetry": map[string]any{"description": "Whether the client should send the request again by itself", "schema": words("", "true", "false")},
	"RetryAfter":  map[string]any{"description": "When trying again is worth while, in milliseconds", "schema": integer("")},
}
