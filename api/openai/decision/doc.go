// Package decision reads requests for decisions (OpenAI's /v1/decisions and System One's /v1/systemone) and writes their answers.
//
// One input, up to 400 questions, and of each the probability of every option, without a word being generated. Each question is a
// prompt of its own; all of them begin with the same tokens, those of the input, which are computed once. What a model thinks of an
// option is the probability that its whole answer is the option's label: the sum of the log-probabilities of all of the label's tokens
// and of the token that ends an answer. So labels of several tokens count whole, and one that begins another is told from it. The
// options' probabilities are these, divided by their sum.
//
//	p, fault := decision.Read(o, m)             // or decision.ReadSystemOne
//	for from := 0; from < p.Len(); from = to {
//		to = p.Wave(from)                       // questions that are asked together
//		…                                       // p.Prompt(i) is a question's prompt, p.Given(i) are its options
//	}
//	body, fault := p.AppendAnswer(nil, logs, usage) // logs[i][k]: the log-probability of option k of question i
package decision
