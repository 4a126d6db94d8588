package pooling

import (
	"slices"
	"strings"

	"weir/api"
	"weir/api/openai/job"
	"weir/api/openai/jsonbody"
	"weir/api/openai/limiter"
	"weir/api/openai/models"
	"weir/api/openai/params"
	"weir/api/openai/prompt"
	"weir/internal/inference"
	"weir/tokenizer"
)

// What one request to a pooling model may hold; the OpenAI API's limits.
const (
	MaxPooledTexts  = 2048
	MaxPooledTokens = 300_000
)

// textReader reads the texts of a request to a pooling model.
type textReader struct {
	model  *models.Model
	permit *limiter.Permit
	field  string // where the texts are that are read now

	around   []inference.TokenID // what the vocabulary puts around a text
	before   int                 // of these, tokens that come first
	keep     int                 // tokens of a text that stay, with those around it; 0: longer ones are refused
	keepsEnd bool                // the last ones
	wayOut   string              // what a client may send to have longer ones cut
	total    int                 // tokens read
}

// newTextReader reads how texts are cut; their own field is read later.
func newTextReader(o *job.Body, m *models.Model, fault **api.Error) *textReader {
	r := newWholeReader(o, m)
	r.readTruncation(o.Object, fault)
	return r
}

// newWholeReader gives a reader that refuses texts which are too long.
func newWholeReader(o *job.Body, m *models.Model) *textReader {
	r := &textReader{model: m, permit: o.Permit, around: m.Around(), wayOut: cutPrompts}
	if m.Tokenizer.AddsBOS() {
		r.before = min(1, len(r.around))
	}
	return r
}

// readTruncation reads how texts are cut that are too long: vLLM's
// truncate_prompt_tokens and truncation_side, and text-embeddings-inference's truncate
// and truncation_direction. The beginning of a text stays unless asked otherwise, as in
// the libraries that these models come from.
func (r *textReader) readTruncation(o *jsonbody.Object, fault **api.Error) {
	r.keep = params.ReadTruncate(o, r.model, fault)
	if fits := o.Flag("truncate", false, fault); r.keep == params.TruncateToFit || fits && r.keep == 0 {
		r.keep = r.model.MaxModelLen
	}
	jsonbody.Keep(fault, r.leavesText("truncate_prompt_tokens", "; or -1 for what fits"))
	left, alsoLeft := readKeepsEnd(o, "truncation_side", fault), readKeepsEnd(o, "truncation_direction", fault)
	r.keepsEnd = left || alsoLeft
}

// leavesText refuses a limit, from a field, that is used up by the model's own tokens. hint says what else helps.
func (r *textReader) leavesText(field, hint string) *api.Error {
	if least := len(r.around) + 1; r.keep > 0 && r.keep < least {
		return api.RefuseParam("invalid_value", field, "%s is %d; %d of these are the model's own tokens around a text; send at least %d%s",
			field, r.keep, len(r.around), least, hint)
	}
	return nil
}

func readKeepsEnd(o *jsonbody.Object, name string, fault **api.Error) bool {
	side, ok := o.Text(name, fault)
	if side = strings.ToLower(side); ok && side != "left" && side != "right" {
		jsonbody.Keep(fault, api.RefuseParam("invalid_value", name, "%s is %s; it must be right, which keeps the beginning, or left", name, jsonbody.HeaderQuote(side)))
	}
	return side == "left"
}

// prompts is a reader of texts in all forms that the OpenAI API has.
func (r *textReader) prompts(field string, n *jsonbody.Notes) *prompt.Reader {
	r.field = field
	return &prompt.Reader{
		Field: field, Most: MaxPooledTexts, TooMany: "; send fewer at once", Model: r.model, Permit: r.permit, Notes: n, Fit: r.fit,
		Options: tokenizer.EncodeOptions{Limit: r.limit()},
	}
}

// limit is how far texts are counted. Where their ends stay, all of a text is
// tokenised.
func (r *textReader) limit() int {
	if r.keepsEnd && r.keep > 0 {
		return 0
	}
	return r.model.CountedLimit()
}

// fit cuts a text to what stays of it, or refuses it.
func (r *textReader) fit(path string, ids []inference.TokenID) ([]inference.TokenID, *api.Error) {
	most := r.model.MaxModelLen
	if r.keep > 0 && len(ids) > r.keep {
		ids = r.cut(ids, r.keep)
	}
	if len(ids) > most {
		return nil, tooLong(path, len(ids), most, r.wayOut)
	}
	return ids, r.count(path, len(ids))
}

// count refuses what is above the tokens of one request.
func (r *textReader) count(path string, tokens int) *api.Error {
	if r.total += tokens; r.total > MaxPooledTokens {
		return api.RefuseParam("invalid_value", r.field, "%s ends at token %d of the request; one request may have %d tokens; send fewer texts at once",
			path, r.total, MaxPooledTokens)
	}
	return nil
}

// cut keeps n tokens of a text: those around it, as far as it has them, and between them
// the first ones or the last ones. A model that pools the last token, or that was trained
// with one at the end, needs it.
func (r *textReader) cut(ids []inference.TokenID, n int) []inference.TokenID {
	first, last := r.around[:r.before], r.around[r.before:]
	if len(ids) < len(first)+len(last) || !slices.Equal(ids[:len(first)], first) {
		first = nil
	}
	if len(ids) < len(first)+len(last) || !slices.Equal(ids[len(ids)-len(last):], last) {
		last = nil
	}
	inner, room := ids[len(first):len(ids)-len(last)], max(n-len(first)-len(last), 0)
	if room < len(inner) {
		if r.keepsEnd {
			inner = inner[len(inner)-room:]
		} else {
			inner = inner[:room]
		}
	}
	return slices.Concat(first, inner, last)
}

// cutPrompts is how vLLM's clients have a text cut.
const cutPrompts = "truncate_prompt_tokens -1"

// tooLong refuses a text; clients look for the words of the OpenAI API. shorten is what has it cut; empty: nothing does.
func tooLong(path string, tokens, limit int, shorten string) *api.Error {
	count := "%d"
	if tokens > 2*limit {
		count = "at least %d" // the rest was not counted
	}
	hint := "."
	if shorten != "" {
		hint = ", or send " + shorten + " to have it cut."
	}
	return api.RefuseParam("context_length_exceeded", path, "This model's maximum context length is %d tokens. However, you requested "+count+
		" tokens in %s. Please reduce the length of %s%s", limit, tokens, path, path, hint)
}

// Unsupported are fields of requests to pooling models that are known and not served.
var Unsupported = map[string]jsonbody.Unserved{
	"messages":             {WayOut: "send text", Nothing: jsonbody.IsEmptyArray},
	"prompt":               {WayOut: "send text"},
	"images":               {WayOut: "send text: models here read no images", Nothing: jsonbody.IsEmptyArray},
	"image":                {WayOut: "send text: models here read no images"},
	"embed_dtype":          {WayOut: `leave it out, or send "float32"`, Nothing: jsonbody.IsText("float32")},
	"embedding_types":      {WayOut: "leave it out, or send encoding_format"},
	"output_dtype":         {WayOut: `leave it out, or send "float"`, Nothing: jsonbody.IsText("float")},
	"endianness":           {WayOut: `leave it out, or send "little"`, Nothing: jsonbody.IsText("little"), Harmless: jsonbody.IsText("native")},
	"padding":              {WayOut: "leave it out: texts are not padded", Nothing: jsonbody.IsText("do_not_pad")},
	"late_chunking":        {WayOut: "leave it out", Nothing: jsonbody.IsWord("false")},
	"rank_fields":          {WayOut: "give each document one text"},
	"mm_processor_kwargs":  {WayOut: "leave it out: models here read text", Harmless: jsonbody.IsAny},
	"chat_template":        {WayOut: "leave it out"},
	"chat_template_kwargs": {WayOut: "leave it out"},
	"stream":               {WayOut: "leave it out: the answer has one part", Nothing: jsonbody.IsWord("false")},
	"cache_salt":           {WayOut: "leave it out: nothing is kept of what these models read", Harmless: jsonbody.IsAny},
}
