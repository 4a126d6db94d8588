package openai

import (
	"weir/api"
	"weir/api/edge"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
)

// answerForm is what a request wants its answer to hold beside the OpenAI
// API's fields; all of it is vLLM's.
type answerForm struct {
	continuousUsage bool   // with includeUsage, in every chunk
	promptLogprobs  int    // alternatives per prompt token; -1 is none
	tokensAsIDs     bool   // log-probabilities name tokens "token_id:N"
	requestID       string // the client's name for the answer; "" is none
}

func readAnswerForm(o *jsonbody.Object, m *models.Model, stream bool, fault **api.Error) answerForm {
	f := answerForm{tokensAsIDs: o.Flag("return_tokens_as_token_ids", false, fault), promptLogprobs: -1}
	if n, ok := o.Integer("prompt_logprobs", 0, int64(m.LogprobsLimit()), fault); ok {
		f.promptLogprobs = int(n)
		if stream {
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", "prompt_logprobs", "prompt_logprobs come with whole answers only; leave out stream"))
		}
	}
	f.requestID = readRequestID(o, fault)
	return f
}

// readRequestID reads what the client calls its request; "" is nothing.
func readRequestID(o *jsonbody.Object, fault **api.Error) string {
	id, ok := o.Text("request_id", fault)
	if ok && !edge.IsPlain([]byte(id)) {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "request_id",
			"request_id is %s; it must be of 1 to %d visible ASCII characters", jsonbody.HeaderQuote(id), edge.MaxRequestIDBytes))
	}
	return id
}
