package models

import (
	"weir/internal/inference"
	"weir/tokenizer/chat"
)

// Decision is how the decision head of a text encoder is asked, as its file says: the template writes a question, its options and what
// they are about as one sequence, with a mark before each option, and the head gives a score at each mark.
type Decision struct {
	Template   *chat.Template    // tokenizer.chat_template.systemone
	Mark       inference.TokenID // begins each option
	Separator  inference.TokenID // stands before the first option, behind the last one, and at the end
	HeadTokens int               // that question and options may have together; the model was trained with longer ones cut

	// Temperatures are what scores are divided by, by the type of a question (choice, score, noul) or by that and the number of its options
	// (choice.2, choice.3_5, choice.6_10, choice.11 for more). 1 where there is none.
	Temperatures map[string]float64
}

// Temperature is that of a question of a type with so many options.
func (d *Decision) Temperature(kind string, options int) float64 {
	bucket := ".11"
	switch {
	case options <= 2:
		bucket = ".2"
	case options <= 5:
		bucket = ".3_5"
	case options <= 10:
		bucket = ".6_10"
	}
	for _, key := range []string{kind + bucket, kind} {
		if t, ok := d.Temperatures[key]; ok {
			return t
		}
	}
	return 1
}
