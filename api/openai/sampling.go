package openai

import (
	"strconv"

	"weir/api"
	"weir/internal/inference"
)

var (
	temperatureRange = interval{low: 0, high: 2}
	topPRange        = interval{low: 0, high: 1, openLow: true}
	minPRange        = interval{low: 0, high: 1}
	repetitionRange  = interval{low: 0, high: 10, openLow: true}
	penaltyRange     = interval{low: -2, high: 2}
	biasRange        = interval{low: -100, high: 100}
)

// readSampling reads the sampler's parameters; names and ranges are those of
// the OpenAI API and, for what it lacks, of vLLM.
func readSampling(o *object, m *Model, fault **api.Error) inference.Sampling {
	s := inference.DefaultSampling()
	s.Temperature = o.number("temperature", temperatureRange, s.Temperature, fault)
	s.TopP = o.number("top_p", topPRange, s.TopP, fault)
	s.TopK = max(0, o.count("top_k", -1, maxInt32, 0, fault))
	s.MinP = o.number("min_p", minPRange, s.MinP, fault)
	s.TypicalP = o.number("typical_p", topPRange, s.TypicalP, fault)
	s.RepetitionPenalty = o.number("repetition_penalty", repetitionRange, s.RepetitionPenalty, fault)
	s.PresencePenalty = o.number("presence_penalty", penaltyRange, s.PresencePenalty, fault)
	s.FrequencyPenalty = o.number("frequency_penalty", penaltyRange, s.FrequencyPenalty, fault)
	s.LogitBias = readLogitBias(o, m, fault)
	s.Seed = seed(o, fault)
	return s
}

// readLogitBias reads a map of token ids, written as strings, to biases.
func readLogitBias(o *object, m *Model, fault **api.Error) []inference.TokenBias {
	raw, ok := o.take("logit_bias")
	if !ok {
		return nil
	}
	entries, err := parseObject("logit_bias", raw, maxBiases)
	if err != nil {
		keep(fault, err)
		return nil
	}
	biases := make([]inference.TokenBias, 0, len(entries.fields))
	for _, f := range entries.fields {
		b, err := parseBias(f, m.Tokenizer.Size())
		if err != nil {
			keep(fault, err)
			return nil
		}
		biases = append(biases, b)
	}
	return biases
}

func parseBias(f field, size int) (inference.TokenBias, *api.Error) {
	path := join("logit_bias", f.name)
	id, err := strconv.ParseUint(f.name, 10, 31)
	if err != nil || int(id) >= size || strconv.FormatUint(id, 10) != f.name {
		return inference.TokenBias{}, badRequest("invalid_value", "logit_bias",
			"logit_bias has the key %s; keys are token ids from 0 to %d", strconv.Quote(quote([]byte(f.name))), size-1)
	}
	v, fault := parseNumber(path, f.raw, biasRange)
	return inference.TokenBias{ID: inference.TokenID(id), Bias: float32(v)}, fault
}
