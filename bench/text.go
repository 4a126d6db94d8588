package bench

import (
	"math"
	"math/rand/v2"
	"strings"
)

// vocabulary are the words of generated prompts: short and common ones, which
// most tokenizers write as one token with the space before. Which words stand
// in a prompt says nothing to a model; what matters is how many there are and
// that no two prompts begin alike by chance.
var vocabulary = strings.Fields(`
	about above across act add after again air all along also always among and animal answer any apple are area arm art
	ask autumn away back bag ball bank bar base bear beat bed bell best big bird black blue board boat body book bottom
	box boy bread break bridge bright bring brother brown build bus but buy cake call camp car card care carry case cat
	chair change child city class clean clear climb clock close cloud coat cold come cook corner could count country
	cover cow cross cup cut dance dark day deep did dinner doctor dog door down draw dream dress drink drive drop dry
	each ear early earth east easy eat egg end enough evening every eye face fact fall family far farm fast father feel
	feet few field fill find fine fire first fish five floor flower fly follow food foot for forest form four free
	friend from front fruit full game garden gate gave girl give glass gold gone good grass great green ground group
	grow had hair half hall hand hard has hat have head hear heart heat held help her here high hill him his hold home
	hope horse hot hour house how hundred ice idea inside iron island job join jump just keep key kind king kitchen knew
	lake land large last late laugh lead learn leave left leg less letter life light like line list listen little live
	long look lost low lunch made make man many map mark may mean meat meet men might mile milk mind minute miss money
	moon more morning most mother mountain mouse mouth move much music must name near need never new next night nine
	north nose note nothing now number off often old once one only open orange order other our out over own page paint
	paper park part party pass past path pay people piece place plan plant play point pool poor pot pull push put queen
	question quick quiet rain ran reach read ready real red rest rice rich ride right ring river road rock room rose
	round row rule run said salt same sand sat saw say school sea seat second see seed seem seen sell send seven shall
	shape she ship shoe shop short show shut side sign silver sing sister sit six size sky sleep slow small smile snow
	soft some song soon sound south space speak spring square stand star start stay step still stone stop store storm
	story street strong such sugar summer sun sure sweet swim table tail take talk tall teach tell ten test than that
	the their them then there these they thing think this those three through time tiny today together told too took top
	town trade train tree trip true try turn twelve two uncle under until upon use valley very village visit voice wait
	walk wall want warm was wash watch water wave way wear week well went were west what wheel when where which while
	white who why wide wild will win wind window winter wish with woman wood word work world would write wrong yard
	year yellow yes yet you young your
`)

// text joins n random words.
func text(r *rand.Rand, n int) string {
	var b strings.Builder
	appendWords(&b, r, n)
	return b.String()
}

// appendWords adds n random words, separated from what is there.
func appendWords(b *strings.Builder, r *rand.Rand, n int) {
	for range n {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(vocabulary[r.IntN(len(vocabulary))])
	}
}

// Scale turns wanted prompt tokens into words. The zero value takes one word
// for a token: the generator has no tokenizer of the server's model. Measured
// by Target.Calibrate, it meets the wanted lengths closely.
type Scale struct {
	TokensPerWord  float64 `json:"tokens_per_word"` // 0 is 1
	OverheadTokens float64 `json:"overhead_tokens"` // of an empty prompt: a template, a first control token
}

// words is at least 1: no server takes an empty prompt.
func (s Scale) words(tokens int) int {
	if s.TokensPerWord <= 0 {
		return max(1, tokens)
	}
	return max(1, int(math.Round((float64(tokens)-s.OverheadTokens)/s.TokensPerWord)))
}

// more is the words of tokens that follow others.
func (s Scale) more(tokens int) int { return Scale{TokensPerWord: s.TokensPerWord}.words(tokens) }

// wordCount of a text whose words are separated by single spaces.
func wordCount(s string) int {
	if s == "" {
		return 0
	}
	return strings.Count(s, " ") + 1
}
