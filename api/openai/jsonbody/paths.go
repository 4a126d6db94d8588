package jsonbody

import (
	"strconv"
	"unicode/utf8"

	"weir/api"
)

// Keep keeps the first of several faults.
func Keep(fault **api.Error, err *api.Error) {
	if *fault == nil && err != nil {
		*fault = err
	}
}

// Join names a field inside a path.
func Join(path, name string) string {
	if len(name) > maxNameBytes {
		name = name[:maxNameBytes] + "…"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// At names an element of an array.
func At(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func orBody(path string) string {
	if path == "" {
		return "the request body"
	}
	return path
}

// Quote shortens a client's value for an error message.
func Quote(raw []byte) string {
	if len(raw) <= maxQuoteBytes {
		return string(raw)
	}
	cut := maxQuoteBytes
	for cut > 0 && !utf8.RuneStart(raw[cut]) {
		cut--
	}
	return string(raw[:cut]) + "…"
}
