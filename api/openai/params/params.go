// Package params reads the parameters of a generation: sampling, limits, stop strings, what the answer shows, what it must look like.
//
//	var fault *api.Error
//	p := params.Read(o, model, &rules, &fault) // fault: the first that is wrong
package params

import (
	"math"
	"math/rand/v2"

	"weir/api"
	"weir/api/openai/format"
	"weir/api/openai/jsonbody"
	"weir/api/openai/models"
	"weir/api/openai/stop"
	"weir/internal/inference"
)

// MaxChoicesPerPrompt bounds n; it is the OpenAI API's limit.
const MaxChoicesPerPrompt = 128

const (
	maxStops     = 16 // stop strings; the OpenAI API has 4, evaluation harnesses send more
	maxStopBytes = 4 << 10
	maxMetadata  = 16 // pairs of metadata; the OpenAI API's limit
)

// Params are what both generation endpoints take, checked and complete except
// for the prompt.
type Params struct {
	Stream          bool
	IncludeUsage    bool
	IncludeProgress bool

	N              int
	MaxTokens      int    // per choice; asManyAsFit, lengthNotSet
	LengthName     string // of the field that said so
	MinTokens      int
	Truncate       int  // tokens of a prompt that stay; 0 is all, truncateToFit
	KeepsStart     bool // the first ones do
	IgnoreEOS      bool
	Stops          *stop.Set
	StopTokens     []inference.TokenID
	Special        bool // control tokens are visible in the text
	ReturnTokenIDs bool
	Logprobs       bool
	EndLogprob     bool // the token that ends a choice has one, too
	Sampling       inference.Sampling
	Seeded         bool // by the client
	Speculation    inference.Toggle
	Reasoning      Reasoning // names of a thought
	HideReasoning  bool      // it is not told
	AnswerForm
	Format  *format.Format // of answers; nil: text
	Schemas format.SchemaRules

	Notes *jsonbody.Notes // warnings for the client
}

// Rules are what a server allows.
type Rules struct {
	MaxChoices    int // n of one request
	MaxStopTokens int
	AnyOrder      bool      // properties come in any order where a request does not say
	Reasoning     Reasoning // the names under which chats tell a thought
}

// Read takes the shared fields out of a request.
func Read(o *jsonbody.Object, m *models.Model, c *Rules, fault **api.Error) *Params {
	p := &Params{
		Notes:          o.Notes,
		Stream:         o.Flag("stream", false, fault),
		N:              o.Count("n", 1, min(MaxChoicesPerPrompt, c.MaxChoices), 1, fault),
		IgnoreEOS:      o.Flag("ignore_eos", false, fault),
		Special:        !o.Flag("skip_special_tokens", true, fault),
		ReturnTokenIDs: o.Flag("return_token_ids", false, fault),
		Reasoning:      c.Reasoning,
	}
	p.ReadMaxTokens(o, fault)
	p.MinTokens = o.Count("min_tokens", 0, math.MaxInt32, 0, fault)
	p.Truncate, p.KeepsStart = ReadTruncate(o, m, fault), readSide(o, fault)
	p.Stops = readStops(o, fault)
	p.StopTokens = readStopTokens(o, m, c, fault)
	p.Sampling, p.Seeded = readSampling(o, m, fault)
	p.Speculation = readToggle(o, "speculative_ngram", fault)
	p.AnswerForm = readAnswerForm(o, m, p.Stream, fault)
	p.Schemas = format.ReadSchemaRules(o, c.AnyOrder, fault)
	p.Format = format.Read(o, p.Schemas, fault)
	p.readStreamOptions(o, fault)
	ReadLabels(o, fault)
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

func (p *Params) readStreamOptions(o *jsonbody.Object, fault **api.Error) {
	raw, ok := o.Take("stream_options")
	if !ok {
		return
	}
	if !p.Stream {
		o.Ignored("stream_options",
			api.RefuseParam("invalid_value", "stream_options", "stream_options is allowed only together with stream: true"), fault)
		return
	}
	so, err := o.Parse("stream_options", raw, jsonbody.MaxFields)
	if err != nil {
		jsonbody.Keep(fault, err)
		return
	}
	p.IncludeUsage = so.Flag("include_usage", false, fault)
	p.IncludeProgress = so.Flag("include_progress", false, fault)
	p.ContinuousUsage = so.Flag("continuous_usage_stats", false, fault)
	if so.Flag("include_obfuscation", false, fault) {
		so.Ignored("include_obfuscation",
			jsonbody.Unsupported("stream_options.include_obfuscation", "leave it out: chunks are not padded"), fault)
	}
	so.Finish(fault)
}

// readStops reads stop: a string or up to maxStops.
func readStops(o *jsonbody.Object, fault **api.Error) *stop.Set {
	include := o.Flag("include_stop_str_in_output", false, fault)
	raw, ok := o.Take("stop")
	if !ok {
		return stop.NewSet(nil, include)
	}
	texts, err := parseStops(raw)
	jsonbody.Keep(fault, err)
	return stop.NewSet(texts, include)
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

func readStopTokens(o *jsonbody.Object, m *models.Model, c *Rules, fault **api.Error) []inference.TokenID {
	raw, ok := o.Take("stop_token_ids")
	if !ok {
		return nil
	}
	ids, err := ParseTokens("stop_token_ids", raw, m.Tokenizer.Size(), c.MaxStopTokens)
	jsonbody.Keep(fault, err)
	return ids
}

// ParseTokens reads an array of at most limit ids of a vocabulary of size
// entries. It makes no list of raw values: a body of ids is long.
func ParseTokens(path string, raw []byte, size, limit int) ([]inference.TokenID, *api.Error) {
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

// Labels are fields that a client attaches for services behind the OpenAI API
// which do not exist here. They change nothing about an answer and are not
// stored; a strict server checks their types.
var Labels = []string{"user", "safety_identifier", "prompt_cache_key"}

// ReadLabels reads what changes no answer: a user, a cache key, metadata.
func ReadLabels(o *jsonbody.Object, fault **api.Error) {
	for _, name := range Labels {
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
