package jsonbody

import (
	"strconv"
	"strings"

	"weir/api"
)

// WrongType says that a parameter must be of another type.
func WrongType(param, want string, raw []byte) *api.Error {
	return api.RefuseParam("invalid_type", param, "%s must be %s, not %s", orBody(param), want, Quote(raw))
}

func outOfRange(param string, raw []byte, want string) *api.Error {
	return api.RefuseParam("invalid_value", param, "%s is %s; it must be %s", param, Quote(raw), want)
}

// Missing says that a parameter must be given, and what it is.
func Missing(param, what string) *api.Error {
	return api.RefuseParam("missing_required_parameter", param, "%s is missing; it must be %s", param, what)
}

func unknown(name string) *api.Error {
	return api.RefuseParam("unknown_parameter", name,
		"unknown parameter %q; leave it out, or run the server without --strict to have such fields ignored", name)
}

// Unsupported says that a parameter is not supported, and what to do instead.
func Unsupported(name, wayOut string) *api.Error {
	return api.RefuseParam("unsupported_parameter", name, "%s is not supported; %s", name, strings.TrimSuffix(wayOut, "."))
}

// HeaderQuote makes a client's text fit for a response header.
func HeaderQuote(text string) string {
	return strconv.QuoteToASCII(Quote([]byte(text)))
}
