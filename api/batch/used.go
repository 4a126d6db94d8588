package batch

import "encoding/json"

// usageOf reads what a line of the output file has used: in the words of chat, completions and embeddings, or in
// those of responses, or the rows of a prediction, which count as tokens of a prompt.
func usageOf(text []byte) Usage {
	var l struct {
		Response struct {
			Body struct {
				Usage struct {
					Prompt     int64 `json:"prompt_tokens"`
					Completion int64 `json:"completion_tokens"`
					Input      int64 `json:"input_tokens"`
					Output     int64 `json:"output_tokens"`

					PromptDetails     cachedTokens    `json:"prompt_tokens_details"`
					InputDetails      cachedTokens    `json:"input_tokens_details"`
					CompletionDetails reasoningTokens `json:"completion_tokens_details"`
					OutputDetails     reasoningTokens `json:"output_tokens_details"`
				} `json:"usage"`
				predictAnswer
			} `json:"body"`
		} `json:"response"`
	}
	if json.Unmarshal(text, &l) != nil {
		return Usage{}
	}
	u := &l.Response.Body.Usage
	return Usage{u.Prompt + u.Input + l.Response.Body.rows(), u.PromptDetails.Cached + u.InputDetails.Cached, u.Completion + u.Output,
		u.CompletionDetails.Reasoning + u.OutputDetails.Reasoning}
}

// predictAnswer is what an answer of V1 or V2 says of its rows.
type predictAnswer struct {
	Predictions []json.RawMessage `json:"predictions"` // V1, by row
	Outputs     json.RawMessage   `json:"outputs"`     // V1 by column: the values of the only output, or an object of columns; V2: a list of tensors
	ModelName   string            `json:"model_name"`  // V2
}

func (p *predictAnswer) rows() int64 {
	var tensors []struct {
		Shape []int64 `json:"shape"`
	}
	var column []json.RawMessage
	var columns map[string][]json.RawMessage
	switch {
	case len(p.Outputs) == 0:
		return int64(len(p.Predictions))
	case p.ModelName != "":
		if json.Unmarshal(p.Outputs, &tensors) == nil && len(tensors) > 0 && len(tensors[0].Shape) > 0 {
			return tensors[0].Shape[0]
		}
	case json.Unmarshal(p.Outputs, &column) == nil:
		return int64(len(column))
	case json.Unmarshal(p.Outputs, &columns) == nil:
		for _, values := range columns {
			return int64(len(values))
		}
	}
	return 0
}
