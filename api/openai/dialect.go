package openai

import (
	"slices"
	"strings"

	"weir/api"
	"weir/api/edge"
	"weir/api/openai/llamaserver"
	"weir/api/openai/messages"
	"weir/api/openai/ollama"
)

// dialect is whose API a path belongs to, which decides on the form of its errors and of its streams.
type dialect uint8

const (
	plain      dialect = iota // OpenAI's, and those that have its errors
	anthropics                // errors with a type, as events with a name
	ollamas                   // errors of one text, streams of JSON lines
	natives                   // llama.cpp's own paths: errors with its types, and the status as their code
)

// linesType is the media type of JSON lines.
const linesType = "application/x-ndjson"

// nativePaths are those of llama.cpp's server that other servers do not have.
var nativePaths = []string{routeNative, routeNatives, routeInfill, routeProps, routeSlots, routeSlot, routeLora, routeEmbedding}

func (rt *route) dialect() dialect {
	switch {
	case strings.HasPrefix(rt.Pattern, routeMessages):
		return anthropics
	case strings.HasPrefix(rt.Pattern, ollamaPaths):
		return ollamas
	case slices.Contains(nativePaths, rt.Pattern):
		return natives
	}
	return plain
}

// streamType is the media type of the path's streams.
func (rt *route) streamType() string {
	if rt.dialect() == ollamas {
		return linesType
	}
	return eventStreamType
}

// dialectOf is that of a call's client: its path's, or of a path that is not served the one that such paths have.
func dialectOf(c *call) dialect {
	if c.route.Pattern == routeOther && strings.HasPrefix(edge.RequestPath(c.ctx.Request.Header.RequestURI()), ollamaPaths) {
		return ollamas
	}
	if readsMessageFaults(c) {
		return anthropics
	}
	return c.route.dialect()
}

// reshape writes an error in the shape of the path, where that has one of its own, or of the client.
func reshape(c *call, fault *api.Error) {
	switch dialectOf(c) {
	case anthropics:
		id := string(c.ctx.Response.Header.Peek("X-Request-Id"))
		c.ctx.Response.Header.Set("Request-Id", id) // under which Anthropic's clients look for it
		c.ctx.SetBody(messages.AppendFault(nil, fault, id))
	case ollamas:
		model := ""
		if fault.Code == "model_not_found" {
			model = ollama.ModelOf(c.ctx.PostBody())
		}
		c.ctx.SetBody(ollama.AppendFault(nil, fault, model))
	case natives:
		c.ctx.SetBody(llamaserver.AppendFault(nil, fault))
	case plain:
	}
}

// AppendFault appends an error as a path's clients read it.
func (rt *route) AppendFault(dst []byte, fault *api.Error) []byte {
	switch rt.dialect() {
	case anthropics:
		return messages.AppendFault(dst, fault, "")
	case ollamas:
		return ollama.AppendFault(dst, fault, "")
	case natives:
		return llamaserver.AppendFault(dst, fault)
	case plain:
	}
	return fault.AppendJSON(dst)
}

// appendFaultEvent appends an error as what ends a stream of the path.
func (rt *route) appendFaultEvent(dst []byte, fault *api.Error) []byte {
	switch {
	case rt.dialect() == ollamas:
		return append(rt.AppendFault(dst, fault), '\n')
	case rt.dialect() == anthropics || strings.HasPrefix(rt.Pattern, routeResponses):
		dst = append(dst, "event: error\n"...)
	}
	return append(rt.AppendFault(append(dst, "data: "...), fault), "\n\n"...)
}
