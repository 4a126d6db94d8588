package params

import (
	"weir/api"
	"weir/api/edge"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
)

// AnswerForm is what a request wants its answer to hold beside the OpenAI
// API's fields; all of it is vLLM's.
type AnswerForm struct {
	ContinuousUsage bool   // with includeUsage, in every chunk
	PromptLogprobs  int    // alternatives per prompt token; -1 is none
	TokensAsIDs     bool   // log-probabilities name tokens "token_id:N"
	RequestID       string // the client's name for the answer; "" is none
}

func readAnswerForm(o *jsonbody.Object, m *models.Model, stream bool, fault **api.Error) AnswerForm {
	f := AnswerForm{TokensAsIDs: o.Flag("return_tokens_as_token_ids", false, fault), PromptLogprobs: -1}
	if n, ok := o.Integer("prompt_logprobs", 0, int64(m.LogprobsLimit()), fault); ok {
		f.PromptLogprobs = int(n)
		if stream {
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", "prompt_logprobs", "prompt_logprobs come with whole answers only; leave out stream"))
		}
	}
	f.RequestID = ReadRequestID(o, fault)
	return f
}

// ReadRequestID reads what the client calls its request; "" is nothing.
func ReadRequestID(o *jsonbody.Object, fault **api.Error) string {
	id, ok := o.Text("request_id", fault)
	if ok && !edge.IsPlain([]byte(id)) {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "request_id",
			"request_id is %s; it must be of 1 to %d visible ASCII characters", jsonbody.HeaderQuote(id), edge.MaxRequestIDBytes))
	}
	return id
}
