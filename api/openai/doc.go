// Package openai serves the OpenAI API and weir's own small extensions of it
// over api.Server: it parses a request once, renders and tokenises, offers it
// to a backend, and turns the backend's token events into JSON or a stream of
// server-sent events.
//
// # Parameters
//
// Nothing is silently ignored. A field that is unknown, or known and not
// served (tools, response_format, best_of, suffix, priority …), is a 400 that
// names it and the way out; with Config.Lenient it is named in the header
// x-weir-warnings instead. Values that mean the same as leaving the field out
// pass ("tools": [], "store": false). Labels that change nothing about the
// answer are checked for their type and dropped: user, safety_identifier,
// prompt_cache_key, metadata, service_tier auto or default.
//
// Beside the OpenAI API's own, sampling takes vLLM's fields: top_k, min_p,
// typical_p, repetition_penalty, min_tokens, ignore_eos, stop_token_ids,
// skip_special_tokens, include_stop_str_in_output, add_generation_prompt,
// continue_final_message, chat_template_kwargs, add_special_tokens,
// return_token_ids. Weir's own are parse_special (control tokens written in a
// prompt count; without it text from a client never becomes one) and
// stream_options.include_progress, which the header x-weir-progress: 1 also
// asks for.
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
package openai
