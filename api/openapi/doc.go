// Package openapi tells what the API listener serves, as an OpenAPI 3.1 document (GET /openapi.json) and as a page (GET /docs).
//
// Paths, methods, who may call and which errors there are come from the route table of the listener's Mux and from api.Refusals; what
// else is told of an operation, its fields above all, is in the tables of this package, one file for each API. A test of the whole server
// fails where a route has no entry, and one of this package where a table lists a field that no reader reads.
//
//	described := openapi.New(openapi.Config{Routes: mux.Routes, Version: "1.2.3", Hooks: hooks})
//	mux.Register(described)
//	text, err := openapi.Document(mux.Routes(), "1.2.3")
package openapi
