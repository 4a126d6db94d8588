package decision

import (
	"fmt"
	"slices"
	"strconv"

	"weir/api/openai/models"
	"weir/internal/inference"
	"weir/tokenizer"
)

// answerLabel is what a language model answers with that chooses an option: a text of one token, in one spelling or several.
type answerLabel struct {
	text string
	ids  []inference.TokenID
}

// single is the token of a text that has just one.
func single(m *models.Model, text string) (inference.TokenID, bool) {
	ids := m.Tokenizer.AppendEncode(nil, text, tokenizer.EncodeOptions{})
	if len(ids) != 1 {
		return 0, false
	}
	return ids[0], true
}

// letterLabels are letters, large ones first, all of which are tokens.
func letterLabels(m *models.Model, q *question) (list []answerLabel, ok bool) {
	for _, letter := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" {
		id, one := single(m, string(letter))
		if !one {
			break
		}
		if list = append(list, answerLabel{string(letter), []inference.TokenID{id}}); len(list) == len(q.options) {
			return list, true
		}
	}
	return list, false
}

// codeLabels are those of A to Z and AA to ZZ that are tokens.
func codeLabels(m *models.Model, q *question) (list []answerLabel, ok bool) {
	for i := range 26 + 26*26 {
		code := string(rune('A' + i%26))
		if i >= 26 {
			code = string(rune('A'+i/26-1)) + code
		}
		id, one := single(m, code)
		if !one {
			continue
		}
		if list = append(list, answerLabel{code, []inference.TokenID{id}}); len(list) == len(q.options) {
			return list, true
		}
	}
	return list, false
}

// spokenLabels are those of LFM2's decision models: yes and no, the digits of a score, and of a choice letters or numbers.
func spokenLabels(m *models.Model, q *question) (list []answerLabel, ok bool) {
	if q.kind == choice {
		return chosenLabels(m, q)
	}
	for i := range q.options {
		o := &q.options[i]
		forms := []string{o.label}
		switch {
		case q.kind == score:
		case o.label == "true":
			forms = []string{"yes", "Yes", "YES"}
		default:
			forms = []string{"no", "No", "NO"}
		}
		l := answerLabel{text: o.label}
		for _, form := range forms {
			if id, one := single(m, form); one && !slices.Contains(l.ids, id) {
				l.ids = append(l.ids, id)
			}
		}
		if l.ids == nil {
			return list, false
		}
		list = append(list, l)
	}
	return list, true
}

// chosenLabels are the options themselves where all are letters, letters up to 26, and numbers of two digits. In the place of one that is no
// token stands the first of others that is.
func chosenLabels(m *models.Model, q *question) (list []answerLabel, ok bool) {
	letters := !slices.ContainsFunc(q.options, func(o option) bool { return len(o.label) != 1 || !letter(o.label[0]) })
	used := map[inference.TokenID]bool{}
	take := func(code string) bool {
		id, one := single(m, code)
		if !one || used[id] {
			return false
		}
		used[id] = true
		l := answerLabel{code, []inference.TokenID{id}}
		if spaced, one := single(m, " "+code); one && spaced != id {
			l.ids = append(l.ids, spaced)
		}
		list = append(list, l)
		return true
	}
	for i := range q.options {
		code := fmt.Sprintf("%02d", i)
		switch {
		case letters:
			code = q.options[i].label
		case len(q.options) <= 26:
			code = string(rune('A' + i))
		}
		if !take(code) && !slices.ContainsFunc(spareLabels, take) {
			return list, false
		}
	}
	return list, true
}

func letter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

// spareLabels stand in for labels that are no tokens, or taken.
var spareLabels = func() (list []string) {
	for c := 'A'; c <= 'Z'; c++ {
		list = append(list, string(c))
	}
	for i := range 100 {
		list = append(list, fmt.Sprintf("%02d", i))
	}
	for c := 'a'; c <= 'z'; c++ {
		list = append(list, string(c))
	}
	for i := range 200 {
		list = append(list, "#"+strconv.Itoa(i))
	}
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			list = append(list, string(a)+string(b))
		}
	}
	return list
}()
