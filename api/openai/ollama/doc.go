// Package ollama is Ollama's own API: requests of POST /api/chat, /api/generate, /api/embed and /api/embeddings translated into those of
// chats, completions and text encoders; their answers as JSON lines; and what is told of the models.
//
//	w, fault := ollama.TranslateChat(o)
//	w.Finish(o.Object)
//	j, fault := readChat(w.Chat) // as any other
//
// Shapes and names are those of Ollama's api/types.go. A field that this server cannot heed is told in the warnings of the answer, or refused
// where the answer would be another one. What a request leaves open is Ollama's default, unless the model's own record says otherwise.
package ollama

// Version is the release of Ollama whose API this is, which GET /api/version tells: clients compare it with the one that they need.
const Version = "0.33.0"
