// Package completion is OpenAI's own API of generations: chat completions and completions, read into jobs, and their answers
// written.
//
//	e := completion.NewChatEncoder(j) // of a job of package job
//	events := e.AppendDelta(nil, &answer.Delta{First: true, Content: []byte("Water.")})
//	events = e.AppendEnd(events, usage)
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
// the client's x-request-id, or its request_id, or an id of this server's.
package completion
