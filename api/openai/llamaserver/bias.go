package llamaserver

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"weir/api"
	"weir/api/openai/jsonbody"
	"weir/api/openai/limiter"
	"weir/api/openai/models"
	"weir/tokenizer"
)

// mostBiases of one request; those of a text's tokens count each.
const mostBiases = 1 << 14

// largestBias is that of completions; with its negative a token is never sampled.
const largestBias = 100

// biases reads logit_bias.
type biases struct {
	permit *limiter.Permit
	model  *models.Model
}

// read gives the object that completions have for logit_bias: [[token, bias], …] or {"token": bias}. A token is an id or a text, whose
// tokens get the bias each; a bias of false bans it. What several entries say of one token is added up.
func (b *biases) read(raw json.RawMessage) ([]byte, *api.Error) {
	sums := map[int32]float64{}
	add := func(at string, token, value json.RawMessage) *api.Error {
		ids, fault := b.biased(at, token)
		if fault != nil {
			return fault
		}
		by := float64(-largestBias)
		if string(value) != "false" {
			if by, fault = jsonbody.Number(at, value, jsonbody.Interval{Low: -1e9, High: 1e9}); fault != nil {
				return fault
			}
		}
		for _, id := range ids {
			sums[id] = max(-largestBias, min(largestBias, sums[id]+by))
		}
		return nil
	}
	if fault := eachBias(raw, add); fault != nil {
		return nil, fault
	}
	out := []byte{'{'}
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		out = jsonbody.AppendField(out, strconv.Itoa(int(id)), strconv.AppendFloat(nil, sums[id], 'g', -1, 32))
	}
	return append(out, '}'), nil
}

// eachBias calls add with every entry of logit_bias: its place, its token and its bias.
func eachBias(raw json.RawMessage, add func(at string, token, value json.RawMessage) *api.Error) *api.Error {
	if raw[0] != '[' {
		entries, fault := jsonbody.ParseObject("logit_bias", raw, mostBiases)
		if fault != nil {
			return fault
		}
		for _, f := range entries.Fields {
			token := json.RawMessage(f.Name)
			if _, err := strconv.ParseUint(f.Name, 10, 31); err != nil {
				token = api.AppendString(nil, f.Name)
			}
			if fault := add(jsonbody.Join("logit_bias", f.Name), token, f.Raw); fault != nil {
				return fault
			}
		}
		return nil
	}
	pairs, fault := jsonbody.Array("logit_bias", raw, mostBiases)
	for i, item := range pairs {
		at := jsonbody.At("logit_bias", i)
		pair, err := jsonbody.Array(at, item, 2)
		if err == nil && len(pair) != 2 {
			err = api.RefuseParam("invalid_value", at, "%s is %s; it must be [token, bias], with the id or the text of a token", at, jsonbody.Quote(item))
		}
		if err == nil {
			err = add(at, pair[0], pair[1])
		}
		if err != nil {
			return err
		}
	}
	return fault
}

// biased are the tokens that an entry names.
func (b *biases) biased(at string, raw json.RawMessage) ([]int32, *api.Error) {
	if raw[0] == '"' {
		text, fault := jsonbody.String(at, raw)
		if fault != nil {
			return nil, fault
		}
		return b.permit.Encode(b.model, at, []tokenizer.Span{{Text: text}}, tokenizer.EncodeOptions{Limit: mostBiases})
	}
	id, err := strconv.ParseUint(string(raw), 10, 31) // the vocabulary is looked at when the completion is read
	if err != nil {
		return nil, api.RefuseParam("invalid_value", at, "%s has the token %s; a token is its id or its text", at, jsonbody.Quote(raw))
	}
	return []int32{int32(id)}, nil
}
