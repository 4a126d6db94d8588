package chat

import (
	"strings"
	"testing"
)

const benchTemplate = `{{- bos_token }}
{%- if tools %}
    {{- '<|system|>\n# Tools\n' }}
    {%- for tool in tools %}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '<|end|>\n' }}
{%- endif %}
{%- set ns = namespace(last=0) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if message.role == 'assistant' and '</think>' in content and loop.index0 < ns.last %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- '<|' + message.role + '|>\n' + content | trim + '<|end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\n' }}
{%- endif %}`

func BenchmarkRender(b *testing.B) {
	template := mustParse(b, benchTemplate)
	turn := []Message{{"user", strings.Repeat("How does it work? ", 20)},
		{"assistant", "<think>hm</think>\n" + strings.Repeat("It works so. ", 40)}}
	for name, turns := range map[string]int{"turns=1": 1, "turns=20": 20} {
		var all []Message
		for range turns {
			all = append(all, turn...)
		}
		in := Input{Messages: Messages(all...), AddGenerationPrompt: true, BOSToken: "<s>"}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := template.Render(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Parse(benchTemplate, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFromJSON(b *testing.B) {
	data := []byte(`[{"role": "user", "content": "` + strings.Repeat("How does it work? ", 500) + `"}]`)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := FromJSON(data); err != nil {
			b.Fatal(err)
		}
	}
}
