package llamaserver

import (
	"net/http"
	"strconv"

	"weir/api"
)

// types are llama.cpp's words for errors, by their status.
var types = map[int]string{
	http.StatusUnauthorized:       "authentication_error",
	http.StatusForbidden:          "permission_error",
	http.StatusNotFound:           "not_found_error",
	http.StatusNotImplemented:     "not_supported_error",
	http.StatusServiceUnavailable: "unavailable_error",
}

// AppendFault appends {"error":{"code":STATUS,"message","type","param"}}, with the tokens of a prompt that does not fit and of the context.
func AppendFault(dst []byte, fault *api.Error) []byte {
	kind, message := types[fault.Status], fault.Message
	if kind == "" {
		kind = fault.Type
	}
	if x := fault.Exceeded; x != nil { // clients look for these words
		kind = "exceed_context_size_error"
		message = "the request (" + strconv.Itoa(x.Prompt) + " tokens) exceeds the available context size (" + strconv.Itoa(x.Context) + " tokens). " + message
	}
	dst = append(dst, `{"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(fault.Status), 10)
	dst = api.AppendString(append(dst, `,"message":`...), message)
	dst = api.AppendString(append(dst, `,"type":`...), kind)
	if fault.Param != "" {
		dst = api.AppendString(append(dst, `,"param":`...), fault.Param)
	}
	if x := fault.Exceeded; x != nil {
		dst = append(dst, `,"n_prompt_tokens":`...)
		dst = strconv.AppendInt(dst, int64(x.Prompt), 10)
		dst = append(dst, `,"n_ctx":`...)
		dst = strconv.AppendInt(dst, int64(x.Context), 10)
	}
	return append(dst, "}}"...)
}
