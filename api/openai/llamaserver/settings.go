package llamaserver

import (
	"encoding/json"

	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/internal/inference"
)

// Settings are the parameters of an answer, as /completion and /props tell them. What has no sampler here is off.
type Settings struct {
	Seed              uint64   `json:"seed"`
	Temperature       float32  `json:"temperature"`
	DynatempRange     float32  `json:"dynatemp_range"`
	DynatempExponent  float32  `json:"dynatemp_exponent"`
	TopK              int      `json:"top_k"`
	TopP              float32  `json:"top_p"`
	MinP              float32  `json:"min_p"`
	TopNSigma         float32  `json:"top_n_sigma"`
	XTCProbability    float32  `json:"xtc_probability"`
	XTCThreshold      float32  `json:"xtc_threshold"`
	TypicalP          float32  `json:"typical_p"`
	RepeatLastN       int      `json:"repeat_last_n"`
	RepeatPenalty     float32  `json:"repeat_penalty"`
	PresencePenalty   float32  `json:"presence_penalty"`
	FrequencyPenalty  float32  `json:"frequency_penalty"`
	DryMultiplier     float32  `json:"dry_multiplier"`
	Mirostat          int      `json:"mirostat"`
	MirostatTau       float32  `json:"mirostat_tau"`
	MirostatEta       float32  `json:"mirostat_eta"`
	AdaptiveTarget    float32  `json:"adaptive_target"`
	AdaptiveDecay     float32  `json:"adaptive_decay"`
	MaxTokens         int64    `json:"max_tokens"`
	Predict           int64    `json:"n_predict"`
	Keep              int      `json:"n_keep"`
	IgnoreEOS         bool     `json:"ignore_eos"`
	Stream            bool     `json:"stream"`
	LogitBias         []Bias   `json:"logit_bias"`
	Probs             int      `json:"n_probs"`
	MinKeep           int      `json:"min_keep"`
	Samplers          []string `json:"samplers"`
	TimingsPerToken   bool     `json:"timings_per_token"`
	PostSamplingProbs bool     `json:"post_sampling_probs"`
	Lora              []string `json:"lora"`
}

// Bias is what is added to a token's logit; nil: the token is never sampled.
type Bias struct {
	Token inference.TokenID `json:"token"`
	Bias  *float32          `json:"bias"`
}

// samplers are those that choose tokens, in their order.
var samplers = []string{"penalties", "temperature", "min_p", "top_k", "typ_p", "top_p"}

// SettingsOf are the parameters of a request. predict is what it has in the place of a limit of tokens.
func SettingsOf(m *models.Model, p *params.Params, predict int64) Settings {
	if p.MaxTokens > 0 {
		predict = int64(p.MaxTokens)
	}
	s := Settings{
		Seed: p.Sampling.Seed, Temperature: p.Sampling.Temperature, TopK: p.Sampling.TopK, TopP: p.Sampling.TopP, MinP: p.Sampling.MinP,
		TypicalP: p.Sampling.TypicalP, RepeatLastN: -1, RepeatPenalty: p.Sampling.RepetitionPenalty, PresencePenalty: p.Sampling.PresencePenalty,
		FrequencyPenalty: p.Sampling.FrequencyPenalty, DynatempExponent: 1, TopNSigma: -1, XTCThreshold: 0.1, MirostatTau: 5, MirostatEta: 0.1,
		AdaptiveTarget: -1, AdaptiveDecay: 0.9, MaxTokens: predict, Predict: predict, IgnoreEOS: p.IgnoreEOS, Stream: p.Stream,
		LogitBias: []Bias{}, Probs: max(p.Sampling.Logprobs, 0), Samplers: samplers, Lora: []string{},
	}
	for i := range p.Sampling.LogitBias {
		b := &p.Sampling.LogitBias[i]
		s.LogitBias = append(s.LogitBias, Bias{b.ID, &b.Bias})
	}
	if p.IgnoreEOS {
		for _, id := range m.Tokenizer.EOG() {
			s.LogitBias = append(s.LogitBias, Bias{Token: id})
		}
	}
	return s
}

// appendSettings appends how tokens were chosen.
func (e *Encoder) appendSettings(dst []byte) []byte {
	text, err := json.Marshal(SettingsOf(e.job.Model, e.job.Params, e.request.Predict))
	if err != nil { // no value of them is beyond JSON
		return append(dst, "null"...)
	}
	return append(dst, text...)
}
