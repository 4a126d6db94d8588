package grammar

import "strings"

// maxControl is the most bytes of a control token's text inside of markup.
const maxControl = 48

// FindControl finds the first control token in markup, the longest one there; n is 0 where there is none, at then the end. Only texts between
// brackets or wide bars are asked for, as models write their tokens; without control, there are none.
func FindControl(markup string, control func(text string) bool) (at, n int) {
	if control == nil {
		return len(markup), 0
	}
	for at = range len(markup) {
		if !bracket(markup[at]) && !strings.HasPrefix(markup[at:], wideBar) {
			continue
		}
		for n = min(maxControl, len(markup)-at); n > 1; n-- {
			if text := markup[at : at+n]; (bracket(text[n-1]) || strings.HasSuffix(text, wideBar)) && control(text) {
				return at, n
			}
		}
	}
	return len(markup), 0
}

// wideBar stands at both ends of DeepSeek's token ｜DSML｜, with brackets around or without.
const wideBar = "｜"

func bracket(c byte) bool { return c == '<' || c == '>' || c == '[' || c == ']' }
