package params

import (
	"math"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
)

// Values of params.maxTokens that are no limit.
const (
	AsManyAsFit  = -1 // what the context leaves beside the prompt
	LengthNotSet = -2 // the endpoint's own default
)

// TruncateToFit is the value of truncate_prompt_tokens that keeps as much of a
// prompt as fits beside the answer asked for.
const TruncateToFit = -1

// ReadMaxTokens reads the limit of output tokens under any of its names.
func (p *Params) ReadMaxTokens(o *jsonbody.Object, fault **api.Error) {
	p.MaxTokens = LengthNotSet
	for _, name := range models.LengthNames {
		n, ok := o.Integer(name, AsManyAsFit, math.MaxInt32, fault)
		switch {
		case !ok:
		case p.MaxTokens == LengthNotSet:
			p.MaxTokens, p.LengthName = int(n), name
		case p.MaxTokens != int(n):
			jsonbody.Keep(fault, api.RefuseParam("invalid_value", name, "%s and %s are the same limit and differ: %d and %d; send one",
				name, p.LengthName, n, p.MaxTokens))
		}
	}
}

// ReadTruncate reads truncate_prompt_tokens: how many of a prompt's last
// tokens stay.
func ReadTruncate(o *jsonbody.Object, m *models.Model, fault **api.Error) int {
	n := o.Count("truncate_prompt_tokens", TruncateToFit, m.MaxModelLen, TruncateToFit-1, fault)
	switch {
	case n == 0:
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "truncate_prompt_tokens",
			"truncate_prompt_tokens is 0, which leaves nothing of the prompt; send at least 1, or -1 for what fits"))
	case n < TruncateToFit:
		return 0
	}
	return n
}

// readSide reads truncation_side: of a prompt that is cut its end stays, or with right its beginning.
func readSide(o *jsonbody.Object, fault **api.Error) (keepsStart bool) {
	side, ok := o.Text("truncation_side", fault)
	if ok && side != "left" && side != "right" {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", "truncation_side",
			"truncation_side is %s; it must be left, which keeps the end of the prompt, or right", jsonbody.HeaderQuote(side)))
	}
	return side == "right"
}
