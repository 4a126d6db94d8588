// Package openai serves the OpenAI API, Anthropic's messages and weir's own small extensions over api.Server: it has the paths
// and the life of a request on them. Each request is one call: its model and version, its quota, policies and idempotency key,
// and then either the engine or the servers of others. How a request is read and its answer written are packages below:
// completion, responses, messages and pooling; what a generation does, generation and choice; what passes through, relay.
//
// # Parameters
//
// Nothing is silently ignored. A field that would change the answer in kind
// and is not served (tools, response_format, suffix …) is a 400 that names it
// and the way out. Unknown fields, at whatever depth, and those that change
// nothing about the answer (store, parallel_tool_calls, labels of a wrong
// type …) are ignored and named in the header x-weir-warnings; with
// Config.Strict they are a 400 too. Values that mean the same as leaving the
// field out pass ("tools": [], null), and so do labels: user,
// safety_identifier, prompt_cache_key, metadata, service_tier.
//
// A limit of output tokens beyond what the context leaves is cut, with a
// warning; a prompt that leaves no room is a 400 in the words of the OpenAI
// API. docs/api.md lists the parameters that are read, and a test compares.
package openai
