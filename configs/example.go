package configs

import (
	"fmt"
	"strings"
)

// Example is a file that sets every setting to its default, with a comment
// above each. configs/weir.example.yml is a copy of it.
func Example() string {
	var b strings.Builder
	b.WriteString("# Every setting of weir with its default. A flag overrides the environment, the\n" +
		"# environment overrides this file. Use it with: weir serve --config weir.yml\n")
	section := ""
	for setting := range New().All() {
		head, key, _ := strings.Cut(setting.Key, ".")
		if head != section {
			section = head
			fmt.Fprintf(&b, "\n%s:\n", section)
		}
		fmt.Fprintf(&b, "  # %s\n  # --%s, %s; %s\n", setting.Usage, setting.Flag, setting.Env(), setting.Accepts())
		fmt.Fprintf(&b, "  %s: %s\n", key, setting.yaml())
	}
	b.WriteString(sample)
	b.WriteString(brownoutSample)
	b.WriteString(classicSample)
	b.WriteString(modelsSample)
	b.WriteString(policiesSample)
	return b.String()
}

// yaml is the current value as it stands in a file.
func (s *Setting) yaml() string {
	switch {
	case s.kind == list && s.show() == "":
		return "[]"
	case s.kind == text, s.kind == list:
		return fmt.Sprintf("%q", s.show())
	}
	return s.show()
}
