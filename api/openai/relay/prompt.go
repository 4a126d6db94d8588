package relay

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"weir/api/openai/models"
	"weir/router"
	"weir/tokenizer"
)

// silentFields of messages and inputs are no text: what pictures, sounds and files are, and how parts are told apart.
var silentFields = append([]string{
	"type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "status", "detail", "cache_control", "signature",
}, sourceFields...)

// sourceFields are what pictures, sounds and files are.
var sourceFields = []string{
	"image", "image_url", "audio", "audio_url", "input_audio", "video", "video_url", "file", "file_id", "file_data", "file_url", "source", "data", "url",
}

// promptTokens is how many tokens a relayed prompt has by its texts: by the model's vocabulary where that is here, or else as the model's other
// prompts have had, as far as its servers have told.
func (s *Relay) promptTokens(model string, parts []router.Part) int {
	t, size := readPrompt(parts)
	return s.textTokens(model, &t, size)
}

// textTokens is promptTokens of texts of so many bytes that were read.
func (s *Relay) textTokens(model string, t *promptTexts, size int) int {
	if size == 0 {
		return t.ids
	}
	if !s.counts(model, size) {
		if tokens, ok := s.Estimates.PromptTokens(model, size); ok {
			return t.ids + tokens
		}
	}
	return t.ids + max(1, int(s.guessInput(model, func() []router.Part { return t.texts }, size)))
}

// shownTokens is how many tokens a picture is expected to have: about those of one of middle size, of OpenAI's and of Qwen's models.
const shownTokens = 1024

// mostReadBytes is the longest prompt that is read to be reserved: longer ones are mostly text, or refused.
const mostReadBytes = 4 << 20

// ExpectedInput is how many tokens a relayed prompt is expected to have, before its servers tell: by its texts, as promptTokens says, and by
// what it shows beside them; a very long one counts as one text of its bytes.
func (s *Relay) ExpectedInput(m *models.Model, parts []router.Part) int64 {
	raw := 0
	for _, p := range parts {
		raw += len(p.Text)
	}
	if raw > mostReadBytes {
		return int64(raw / BytesPerToken)
	}
	t, size := readPrompt(parts)
	shown := int64(t.shown) * shownTokens
	if m.Tokenizer == nil || size > mostCountedBytes {
		return shown + int64(s.textTokens(m.ID, &t, size))
	}
	sum := int64(t.ids)
	for _, p := range t.texts {
		sum += int64(len(m.Tokenizer.AppendEncode(nil, string(p.Text), tokenizer.EncodeOptions{})))
	}
	return shown + sum
}

// learnPrompt takes in how many tokens its servers have told of a prompt, unless it has some that are in no text: those of pictures, or ids.
func (s *Relay) learnPrompt(model string, parts []router.Part, tokens int) {
	raw := 0
	for _, p := range parts {
		raw += len(p.Text)
	}
	if raw > mostCountedBytes || !s.Estimates.LearnsPrompt(model) {
		return
	}
	if t, size := readPrompt(parts); t.ids == 0 && t.shown == 0 {
		s.Estimates.LearnPrompt(model, size, tokens)
	}
}

// readPrompt reads the texts of a prompt, and counts their bytes.
func readPrompt(parts []router.Part) (t promptTexts, size int) {
	for _, p := range parts {
		t.read(p)
	}
	for i := range t.texts {
		size += len(t.texts[i].Text)
	}
	return t, size
}

// promptTexts are what a model reads of a prompt.
type promptTexts struct {
	texts []router.Part
	ids   int // tokens that are given as numbers
	shown int // pictures, sounds and files
}

// read reads a part: of tools all, which templates write as JSON, and of all else the texts.
func (t *promptTexts) read(p router.Part) {
	if p.Kind != "tools" {
		var value any
		if json.Unmarshal(p.Text, &value) == nil {
			p.Text = t.appendTexts(nil, value)
		}
	}
	t.texts = append(t.texts, p)
}

func (t *promptTexts) appendTexts(dst []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		dst = append(dst, v...)
	case float64:
		t.ids++
	case []any:
		for _, e := range v {
			dst = t.appendTexts(dst, e)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !slices.Contains(silentFields, name) {
				dst = t.appendTexts(dst, v[name])
			} else if slices.Contains(sourceFields, name) {
				t.shown++
			}
		}
	}
	return dst
}

// hiddenPromptTokens of a prompt may be in no byte of the request: templates have them, and servers add prompts of their own.
const hiddenPromptTokens = 1 << 14

// elsewhereTokens may be behind each thing that the request only names, and that the model reads: pictures, files, what a tool finds
// that the server runs.
const elsewhereTokens = 1 << 20

// promptBound tells whether the prompt of a request can have n tokens: a token has a byte or more. Where there is no answer, one text may be
// read with each of a list, and each has a template. It reads the body only for a prompt with more tokens than bytes, and once.
func promptBound(body []byte, writes bool, answers int) (fits func(n int) bool) {
	most := 0 // not known yet
	return func(n int) bool {
		least := len(body) + hiddenPromptTokens
		if n > least && most == 0 {
			texts, named := promptSources(body)
			if writes {
				texts = answers // some servers count the prompt for each
			}
			most = min(least*max(texts, 1)+named*elsewhereTokens, maxToldTokens)
		}
		return n <= max(least, most)
	}
}

// promptSources counts the values of the longest list in a request's fields, and what it names that is elsewhere.
func promptSources(body []byte) (texts, named int) {
	var fields map[string]any
	if json.Unmarshal(body, &fields) != nil {
		return 0, 0 // it was read as an object before
	}
	for name, value := range fields {
		if list, ok := value.([]any); ok {
			texts = max(texts, len(list))
		}
		if _, ok := value.(map[string]any); ok && name == "prompt" { // of Responses: it is stored
			named++
		}
	}
	return texts, namedIn(fields) + named
}

// namingFields name what is elsewhere, or tools that a server runs: beside sourceFields.
var namingFields = []string{
	"web_search_options", "search_parameters", "plugins", "data_sources", "conversation", "previous_response_id", "container", "mcp_servers", "server_url",
}

// runTypes are in the types of tools that a server runs.
var runTypes = []string{"search", "fetch", "mcp", "code_", "computer", "retrieval", "browser"}

func namedIn(value any) (n int) {
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			n += namedIn(e)
		}
	case map[string]any:
		for name, e := range v {
			kind, _ := e.(string)
			switch {
			case slices.Contains(sourceFields, name), slices.Contains(namingFields, name),
				name == "type" && slices.ContainsFunc(runTypes, func(t string) bool { return strings.Contains(kind, t) }):
				n++
			}
			n += namedIn(e)
		}
	}
	return n
}
