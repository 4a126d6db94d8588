package openai

import (
	"encoding/json"
	"maps"
	"slices"

	"weir/router"
)

// silentFields of messages and inputs are no text: what pictures, sounds and files are, and how parts are told apart.
var silentFields = []string{
	"type", "role", "id", "call_id", "tool_call_id", "tool_use_id", "status", "detail", "cache_control", "signature",
	"image", "image_url", "audio", "audio_url", "input_audio", "video", "video_url", "file", "file_id", "file_data", "file_url", "source", "data", "url",
}

// promptTokens is how many tokens a relayed prompt has by its texts, or more exactly by the model's vocabulary where that is here.
func (s *Server) promptTokens(model string, parts []router.Part) int {
	var t promptTexts
	for _, p := range parts {
		t.read(p)
	}
	size := 0
	for i := range t.texts {
		size += len(t.texts[i].Text)
	}
	if size == 0 {
		return t.ids
	}
	return t.ids + max(1, int(s.guessInput(model, t.texts, size)))
}

// promptTexts are what a model reads of a prompt.
type promptTexts struct {
	texts []router.Part
	ids   int // tokens that are given as numbers
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
			}
		}
	}
	return dst
}
