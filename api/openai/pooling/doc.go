// Package pooling reads what text encoders are asked (embeddings, reranks, scores and labels, in the forms of OpenAI, Cohere, Jina, vLLM and
// text-embeddings-inference), and writes their answers.
//
//	r, fault := rules.ReadEmbedding(o, model)
//	…
//	body := r.Answer.AppendAnswer(nil, r, vectors) // a vector for each of r.Texts
//
// A text that is longer than the model reads is refused with its count, or cut on request so that the tokens around it stay.
// Vectors come as the embedder pools them; length, dimensions and encoding are made here, and so are the scores of rank heads.
package pooling
