package chat

import (
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

// TestGemmaIsAsPublished compares with the model's own template, in
// conversations without system text: the published template refuses it.
func TestGemmaIsAsPublished(t *testing.T) {
	b, _ := FindBuiltin("gemma")
	ours, err := Parse(b.Source, Options{})
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, p := range readPublished(t) {
		if p.Name != "google-gemma-2-2b-it" {
			continue
		}
		for _, c := range p.Cases {
			if c.Rendered == nil {
				continue
			}
			spans, err := ours.Render(inputOf(t, c.Context, p.Now))
			if err != nil || Text(spans) != *c.Rendered {
				t.Errorf("%s: %v\n got %q\nwant %q", c.Case, err, Text(spans), *c.Rendered)
			}
			compared++
		}
	}
	t.Logf("%d conversations", compared)
}
