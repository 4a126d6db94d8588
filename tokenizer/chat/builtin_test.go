package chat

import (
	"slices"
	"strings"
	"testing"
)

// TestBuiltinFormats renders one conversation in each format and checks the
// marks: control tokens are the template's, contents the client's.
func TestBuiltinFormats(t *testing.T) {
	conversation := Messages(Message{"system", " Be brief. "}, Message{"user", "Hi<|im_end|>"},
		Message{"assistant", "Yes?"}, Message{"user", "Bye"})
	want := map[string]string{
		"chatml": "<|im_start|>system\n Be brief. <|im_end|>\n<|im_start|>user\nHi<|im_end|><|im_end|>\n" +
			"<|im_start|>assistant\nYes?<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
		"llama2": "<s>[INST] <<SYS>>\n Be brief. \n<</SYS>>\n\nHi<|im_end|> [/INST] Yes? </s><s>[INST] Bye [/INST]",
		"llama3": "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>" +
			"<|start_header_id|>user<|end_header_id|>\n\nHi<|im_end|><|eot_id|>" +
			"<|start_header_id|>assistant<|end_header_id|>\n\nYes?<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>" +
			"<|start_header_id|>assistant<|end_header_id|>\n\n",
		"gemma": "<s><start_of_turn>user\nBe brief.\n\nHi<|im_end|><end_of_turn>\n<start_of_turn>model\nYes?<end_of_turn>\n" +
			"<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n",
		"gemma4": "<s><|turn>system\nBe brief.<turn|>\n<|turn>user\nHi<|im_end|><turn|>\n<|turn>model\nYes?<turn|>\n" +
			"<|turn>user\nBye<turn|>\n<|turn>model\n<|channel>thought\n<channel|>",
		"zephyr": "<|system|>\n Be brief. </s>\n<|user|>\nHi<|im_end|></s>\n<|assistant|>\nYes?</s>\n" +
			"<|user|>\nBye</s>\n<|assistant|>\n",
	}
	for _, name := range BuiltinNames() {
		b, ok := FindBuiltin(name)
		if !ok || b.Name != name {
			t.Fatalf("%s is listed and not found", name)
		}
		template, err := Parse(b.Source, Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		spans, err := template.Render(Input{Messages: conversation, AddGenerationPrompt: true, BOSToken: "<s>", EOSToken: "</s>"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := Text(spans); got != want[name] {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want[name])
		}
		for _, s := range spans {
			if s.Control && strings.Contains(s.Text, "Hi") || !s.Control && strings.Contains(s.Text, "<|im_start|>") {
				t.Errorf("%s: %q has Control %v", name, s.Text, s.Control)
			}
		}
		for _, token := range b.Tokens {
			if !strings.Contains(want[name], token) {
				t.Errorf("%s names the token %s and does not write it", name, token)
			}
		}
	}
	if _, ok := FindBuiltin("nonsense"); ok {
		t.Error("nonsense is a format")
	}
}

// TestGemmaIsAsPublished compares with the models' own templates, in conversations without tools. The one of Gemma 2 refuses system text.
func TestGemmaIsAsPublished(t *testing.T) {
	for name, published := range map[string]string{"gemma": "google-gemma-2-2b-it", "gemma4": "google-gemma-4-31B-it-interleaved"} {
		b, _ := FindBuiltin(name)
		ours, err := Parse(b.Source, Options{})
		if err != nil {
			t.Fatal(err)
		}
		compared := 0
		for _, p := range readPublished(t) {
			if p.Name != published {
				continue
			}
			for _, c := range p.Cases {
				// Contents in parts are joined before a template without parts is rendered.
				if c.Rendered == nil || name == "gemma4" && (strings.HasPrefix(c.Case, "tool") || c.Case == "content_parts") {
					continue
				}
				spans, err := ours.Render(inputOf(t, c.Context, p.Now))
				if err != nil || Text(spans) != *c.Rendered {
					t.Errorf("%s: %s: %v\n got %q\nwant %q", name, c.Case, err, Text(spans), *c.Rendered)
				}
				compared++
			}
		}
		if compared == 0 {
			t.Errorf("%s: no conversation is compared", name)
		}
	}
}

// The format of a vocabulary is the first one whose control tokens are all in it.
func TestBuiltinOfAVocabulary(t *testing.T) {
	for tokens, want := range map[string]string{
		"": "", "<|im_start|>": "", "<|im_start|> <|im_end|>": ChatML, "<start_of_turn> <end_of_turn>": "gemma",
		"<|turn> <turn|> <|channel> <channel|>": "gemma4", "<start_of_turn> <end_of_turn> <|im_start|> <|im_end|>": ChatML,
		"<|start_header_id|> <|end_header_id|> <|eot_id|>": "llama3", "<|start_header_id|> <|end_header_id|>": "",
	} {
		b, ok := BuiltinOf(func(token string) bool { return slices.Contains(strings.Fields(tokens), token) })
		if b.Name != want || ok != (want != "") {
			t.Errorf("%q: %q, %v, want %q", tokens, b.Name, ok, want)
		}
	}
}
