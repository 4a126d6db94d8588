// Package openai serves the OpenAI API and weir's own small extensions of it
// over api.Server: it parses a request once, renders the chat template,
// tokenises, submits to a backend, and turns the backend's token events into JSON or a stream of
// server-sent events.
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
//
// # Text encoders
//
// A Model with a Pooler gives vectors or scores. Its requests differ from
// generations in what is read and written only (poolingEndpoint): their life
// is that of call.pool. A text that is longer than the model reads is refused
// with its count, or cut on request so that the tokens around it stay.
// Vectors come as the embedder pools them; length, dimensions and encoding are
// made here, and so are the scores of rank heads.
//
// # Answers
//
// A stop string never appears in the output (unless included on request); the
// match that ends first counts. Tokens that begin behind the cut have no
// logprobs, and neither has the token that ended the choice, though usage
// counts it. In the legacy logprobs, text_offset counts code points from the
// beginning of the choice's text, the echoed prompt included.
//
// A stream sends one chunk per token that yields text. The role comes with
// the first of them, never ahead of it, so the time to the first chunk is the
// time to the first token. The finish reason has a chunk of its own. After an
// error there is no [DONE].
//
// Beside finish_reason stands vLLM's stop_reason: the stop string or the token
// of stop_token_ids that ended the choice, else null. An answer is called by
// the client's x-request-id, or its request_id, or an id of ours.
package openai
