package openai

import (
	"math/rand/v2"

	"weir/api"
	"weir/api/openai/format"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/internal/inference"
)

const (
	maxChoicesPerPrompt = 128 // n; the OpenAI API's limit
	maxStops            = 16  // stop strings; the OpenAI API has 4, evaluation harnesses send more
	maxStopBytes        = 4 << 10
	maxMetadata         = 16 // pairs of metadata; the OpenAI API's limit
)

// params are what both generation endpoints take, checked and complete but
// for the prompt.
type params struct {
	stream          bool
	includeUsage    bool
	includeProgress bool

	n              int
	maxTokens      int    // per choice; asManyAsFit, lengthNotSet
	lengthName     string // of the field that said so
	minTokens      int
	truncate       int // tokens of a prompt that stay; 0 is all, truncateToFit
	ignoreEOS      bool
	stops          *stopSet
	stopTokens     []inference.TokenID
	special        bool // control tokens are visible in the text
	returnTokenIDs bool
	logprobs       bool
	endLogprob     bool // the token that ends a choice has one, too
	sampling       inference.Sampling
	seeded         bool // by the client
	speculation    inference.Toggle
	reasoning      Reasoning // names of a thought
	hideReasoning  bool      // it is not told
	answerForm
	format  *format.Format // of answers; nil: text
	schemas format.SchemaRules

	notes *jsonbody.Notes // warnings for the client
}

// readParams takes the shared fields out of a request.
func readParams(o *jsonbody.Object, m *models.Model, c *Config, fault **api.Error) *params {
	p := &params{
		notes:          o.Notes,
		stream:         o.Flag("stream", false, fault),
		n:              o.Count("n", 1, min(maxChoicesPerPrompt, c.MaxChoices), 1, fault),
		ignoreEOS:      o.Flag("ignore_eos", false, fault),
		special:        !o.Flag("skip_special_tokens", true, fault),
		returnTokenIDs: o.Flag("return_token_ids", false, fault),
		reasoning:      c.Reasoning,
	}
	p.readMaxTokens(o, fault)
	p.minTokens = o.Count("min_tokens", 0, maxInt32, 0, fault)
	p.truncate = readTruncate(o, m, fault)
	p.stops = readStops(o, fault)
	p.stopTokens = readStopTokens(o, m, c, fault)
	p.sampling, p.seeded = readSampling(o, m, fault)
	p.speculation = readToggle(o, "speculative_ngram", fault)
	p.answerForm = readAnswerForm(o, m, p.stream, fault)
	p.schemas = format.ReadSchemaRules(o, c.AnyOrder, fault)
	p.format = format.Read(o, p.schemas, fault)
	p.readStreamOptions(o, fault)
	readLabels(o, fault)
	return p
}

// readToggle reads a flag that the server decides where it is absent.
func readToggle(o *jsonbody.Object, name string, fault **api.Error) inference.Toggle {
	on, ok := o.Bool(name, fault)
	switch {
	case !ok:
		return inference.ToggleUnset
	case on:
		return inference.ToggleOn
	}
	return inference.ToggleOff
}

const maxInt32 = 1<<31 - 1

func (p *params) readStreamOptions(o *jsonbody.Object, fault **api.Error) {
	raw, ok := o.Take("stream_options")
	if !ok {
		return
	}
	if !p.stream {
		o.Ignored("stream_options",
			api.RefuseParam("invalid_value", "stream_options", "stream_options is allowed only together with stream: true"), fault)
		return
	}
	so, err := o.Parse("stream_options", raw, jsonbody.MaxFields)
	if err != nil {
		jsonbody.Keep(fault, err)
		return
	}
	p.includeUsage = so.Flag("include_usage", false, fault)
	p.includeProgress = so.Flag("include_progress", false, fault)
	p.continuousUsage = so.Flag("continuous_usage_stats", false, fault)
	if so.Flag("include_obfuscation", false, fault) {
		so.Ignored("include_obfuscation",
			jsonbody.Unsupported("stream_options.include_obfuscation", "leave it out: chunks are not padded"), fault)
	}
	so.Finish(fault)
}

// readStops reads stop: a string or up to maxStops.
func readStops(o *jsonbody.Object, fault **api.Error) *stopSet {
	include := o.Flag("include_stop_str_in_output", false, fault)
	raw, ok := o.Take("stop")
	if !ok {
		return newStopSet(nil, include)
	}
	texts, err := parseStops(raw)
	jsonbody.Keep(fault, err)
	return newStopSet(texts, include)
}

func parseStops(raw []byte) ([]string, *api.Error) {
	if raw[0] == '"' {
		s, err := parseStop("stop", raw)
		return []string{s}, err
	}
	if raw[0] != '[' {
		return nil, jsonbody.WrongType("stop", "a string or an array of strings", raw)
	}
	list, err := jsonbody.Array("stop", raw, maxStops)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(list))
	for i, item := range list {
		if texts[i], err = parseStop(jsonbody.At("stop", i), item); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

func parseStop(path string, raw []byte) (string, *api.Error) {
	s, err := jsonbody.String(path, raw)
	switch {
	case err != nil:
		return "", err
	case s == "":
		return "", api.RefuseParam("invalid_value", path, "%s is empty; it would end every answer at once", path)
	case len(s) > maxStopBytes:
		return "", api.RefuseParam("invalid_value", path, "%s has %d bytes; %d are allowed", path, len(s), maxStopBytes)
	}
	return s, nil
}

func readStopTokens(o *jsonbody.Object, m *models.Model, c *Config, fault **api.Error) []inference.TokenID {
	raw, ok := o.Take("stop_token_ids")
	if !ok {
		return nil
	}
	ids, err := parseTokens("stop_token_ids", raw, m.Tokenizer.Size(), c.MaxStopTokens)
	jsonbody.Keep(fault, err)
	return ids
}

// parseTokens reads an array of at most limit ids of a vocabulary of size
// entries. It makes no list of raw values: a body of ids is long.
func parseTokens(path string, raw []byte, size, limit int) ([]inference.TokenID, *api.Error) {
	i := jsonbody.SkipSpace(raw, 0)
	if raw[i] != '[' {
		return nil, jsonbody.WrongType(path, "an array of token ids", raw)
	}
	var ids []inference.TokenID
	for i = jsonbody.SkipSpace(raw, i+1); raw[i] != ']'; {
		end := jsonbody.SkipValue(raw, i)
		if len(ids) == limit {
			return nil, api.RefuseParam("invalid_value", path, "%s has more than %d values", path, limit)
		}
		id, err := jsonbody.Integer(jsonbody.At(path, len(ids)), raw[i:end], 0, int64(size)-1)
		if err != nil {
			return nil, err
		}
		ids = append(ids, inference.TokenID(id))
		i = jsonbody.SkipComma(raw, end)
	}
	return ids, nil
}

// labels are fields that a client attaches for services behind the OpenAI API
// which do not exist here. They change nothing about an answer and are not
// stored; a strict server checks their types.
var labels = []string{"user", "safety_identifier", "prompt_cache_key"}

func readLabels(o *jsonbody.Object, fault **api.Error) {
	for _, name := range labels {
		if raw, ok := o.Take(name); ok {
			_, err := jsonbody.String(name, raw)
			ignoreLabel(o, name, err, fault)
		}
	}
	if raw, ok := o.Take("metadata"); ok {
		ignoreLabel(o, "metadata", checkMetadata(raw), fault)
	}
}

// ignoreLabel ignores a label of the wrong form.
func ignoreLabel(o *jsonbody.Object, name string, wrong *api.Error, fault **api.Error) {
	if wrong != nil {
		o.Ignored(name, wrong, fault)
	}
}

// checkMetadata wants an object of strings.
func checkMetadata(raw []byte) *api.Error {
	pairs, err := jsonbody.ParseObject("metadata", raw, maxMetadata)
	if err != nil {
		return err
	}
	for _, f := range pairs.Fields {
		if _, err := jsonbody.String(jsonbody.Join("metadata", f.Name), f.Raw); err != nil {
			return err
		}
	}
	return nil
}

// seed draws one where the request has none of its own.
func seed(o *jsonbody.Object, fault **api.Error) (n uint64, own bool) {
	if n, ok := o.Integer("seed", -1<<63, 1<<63-1, fault); ok {
		return uint64(n), true //nolint:gosec // any bit pattern is a seed
	}
	return rand.Uint64(), false
}
