package ollama

import (
	"encoding/json"
	"strings"

	"weir/api"
)

// AppendFault appends {"error":"…"}. model is what the request calls its model.
func AppendFault(dst []byte, fault *api.Error, model string) []byte {
	message := fault.Message
	switch {
	case fault.Code == "model_not_found" && model != "": // clients look for these words
		message = "model '" + shortened(model) + "' not found: " + message
	case fault.Code == "context_length_exceeded":
		message = "the input length exceeds the context length: " + message
	}
	return append(api.AppendString(append(dst, `{"error":`...), message), '}')
}

// mostNameBytes of a name are told back.
const mostNameBytes = 200

func shortened(name string) string {
	if len(name) <= mostNameBytes {
		return name
	}
	return strings.ToValidUTF8(name[:mostNameBytes], "") + "…"
}

// maxNamedBytes of a body are read for the name of a model that was not found.
const maxNamedBytes = 1 << 20

// ModelOf is what a request calls its model; "" where that cannot be read.
func ModelOf(body []byte) string {
	var said struct{ Model, Name, Source string }
	if len(body) > maxNamedBytes || json.Unmarshal(body, &said) != nil {
		return ""
	}
	for _, name := range []string{said.Model, said.Name, said.Source} {
		if name != "" {
			return name
		}
	}
	return ""
}

// IsFault reports whether a body is an error of this API.
func IsFault(body []byte) bool {
	var said struct{ Error *string }
	return json.Unmarshal(body, &said) == nil && said.Error != nil
}
