// Package jsonbody reads the JSON object of a request's body, each field once, with errors that name the
// field, the value and what it must be.
//
//	o, fault := jsonbody.Parse(body, strict)
//	...
//	stream := o.Flag("stream", false, &fault)
//	n := o.Count("n", 1, 128, 1, &fault)
//	o.Finish(&fault) // fields that were not read: ignored and noted, or refused where strict
//
// A body is checked once as a whole (UTF-8, depth, syntax). After that its values are split by a small scanner
// that relies on valid JSON. What was not read is an unknown field (Object.Finish), and a name that comes
// twice is an error.
package jsonbody
