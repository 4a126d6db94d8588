package pii

import "strings"

// prefixes are how keys begin that say what they are, and how many characters of a key
// at least follow.
var prefixes = []struct {
	text  string
	chars int
}{
	{"weir_", 20},
	{"sk-", 16}, {"gsk_", 20}, {"xai-", 20}, {"hf_", 20}, {"r8_", 20}, {"pplx-", 20}, // inference providers
	{"AKIA", 16}, {"ASIA", 16}, {"AIza", 30}, {"ya29.", 20}, {"dop_v1_", 32}, // clouds
	{"ghp_", 20}, {"gho_", 20}, {"ghu_", 20}, {"ghs_", 20}, {"ghr_", 20}, {"github_pat_", 20}, {"glpat-", 16},
	{"npm_", 20}, {"pypi-", 20},
	{"xoxa-", 10}, {"xoxb-", 10}, {"xoxp-", 10}, {"xoxr-", 10}, {"xoxs-", 10}, {"xapp-", 10},
	{"sk_live_", 10}, {"rk_live_", 10}, {"sk_test_", 10}, {"rk_test_", 10}, {"whsec_", 16}, {"SG.", 20},
	{"AGE-SECRET-KEY-", 20},
	{"eyJ", 16}, // the base64 of a JSON object, which is what a JSON web token begins with
}

// firstOfPrefix and firstOfAssigned are the bytes that prefixes and names begin with, so
// that most of a text is passed over quickly.
var firstOfPrefix, firstOfAssigned = firstBytes()

func firstBytes() (prefix, name [256]bool) {
	for _, p := range prefixes {
		prefix[p.text[0]] = true
	}
	for _, a := range assigned {
		name[a[0]], name[a[0]&^0x20] = true, true
	}
	return prefix, name
}

// isKeyChar takes the letters of base64 in both alphabets, and the dots of a token.
func isKeyChar(b byte) bool { return isAlnum(b) || strings.IndexByte("_-.+/=", b) >= 0 }

// FindSecret finds keys by how they begin. A key is at the beginning of a word and goes
// on as long as it can.
func FindSecret(text string, from int) (start, end int) {
	for i := from; i < len(text); i++ {
		if !firstOfPrefix[text[i]] || !beginsWord(text, i) {
			continue
		}
		for _, p := range prefixes {
			if !strings.HasPrefix(text[i:], p.text) {
				continue
			}
			if end := i + len(p.text) + p.chars; end <= len(text) && allKeyChars(text[i+len(p.text):end]) {
				return i, trimmedEnd(text, end)
			}
		}
	}
	return -1, -1
}

func allKeyChars(text string) bool {
	for i := range len(text) {
		if !isKeyChar(text[i]) {
			return false
		}
	}
	return true
}

// trimmedEnd is where the key ends that reaches to end at least: a dot after it ends a
// sentence.
func trimmedEnd(text string, end int) int {
	least := end
	for end < len(text) && isKeyChar(text[end]) {
		end++
	}
	for end > least && text[end-1] == '.' {
		end--
	}
	return end
}

const (
	beginKey = "-----BEGIN "
	endKey   = "-----END "
)

// FindPrivateKey finds what is between the lines that enclose a private key. One
// without its last line reaches to the end of the text.
func FindPrivateKey(text string, from int) (start, end int) {
	for {
		i := strings.Index(text[from:], beginKey)
		if i < 0 {
			return -1, -1
		}
		start = from + i
		line := text[start+len(beginKey):]
		const most = 64 // of the key's kind
		line = line[:min(len(line), most)]
		if n := strings.IndexAny(line, "\r\n"); n >= 0 {
			line = line[:n]
		}
		from = start + len(beginKey)
		if !strings.Contains(line, "PRIVATE KEY") {
			continue
		}
		i = strings.Index(text[from:], endKey)
		if i < 0 {
			return start, len(text)
		}
		end = from + i + len(endKey)
		for n := 0; n < most && end < len(text) && text[end] != '\n' && text[end] != '-'; n++ {
			end++
		}
		for end < len(text) && text[end] == '-' {
			end++
		}
		return start, end
	}
}

// assigned are names whose value is a secret, in small letters.
var assigned = []string{
	"password", "passwd", "passphrase", "pwd", "secret", "api_key", "apikey", "api-key", "access_key", "accesskey", "access-key",
	"private_key", "client_secret", "auth_token", "access_token", "refresh_token", "bearer",
}

const (
	minValueChars = 6
	mostFiller    = 8 // characters between a name and its value
)

// FindAssigned finds the values of password=…, "api_key": "…", Bearer ….
func FindAssigned(text string, from int) (start, end int) {
	for i := from; i < len(text); i++ {
		if !firstOfAssigned[text[i]] {
			continue
		}
		for _, name := range assigned {
			if text[i]|0x20 != name[0] || len(text)-i < len(name) || !strings.EqualFold(text[i:i+len(name)], name) {
				continue
			}
			if start, end, ok := value(text, i+len(name), name == "bearer"); ok {
				return start, end
			}
		}
	}
	return -1, -1
}

// value is what is assigned at i. Where spaced is set a space alone assigns, and what
// has no digit near its beginning is prose ("bearer of bad news").
func value(text string, i int, spaced bool) (start, end int, ok bool) {
	filler := i
	assigns := false
	for i < len(text) && i-filler < mostFiller && strings.IndexByte(" \t\"'`:=>\\", text[i]) >= 0 {
		assigns = assigns || text[i] == ':' || text[i] == '=' || spaced && text[i] == ' '
		i++
	}
	if !assigns {
		return 0, 0, false
	}
	const near = 64
	digit := false
	for end = i; end < len(text) && isValueChar(text[end]); end++ {
		digit = digit || isDigit(text[end])
		if spaced && !digit && end-i > near {
			return 0, 0, false
		}
	}
	return i, end, end-i >= minValueChars && (digit || !spaced)
}

func isValueChar(b byte) bool { return b > ' ' && strings.IndexByte("\"'`<>,;[]{}()\\", b) < 0 }

// FindURLPassword finds the password of SCHEME://USER:PASSWORD@HOST.
func FindURLPassword(text string, from int) (start, end int) {
	for {
		i := strings.Index(text[from:], "://")
		if i < 0 {
			return -1, -1
		}
		i += from + len("://")
		colon := -1
	userinfo:
		for ; i < len(text); i++ {
			switch b := text[i]; {
			case b == ':' && colon < 0:
				colon = i
			case b == '@' && colon >= 0 && i > colon+1:
				return colon + 1, i
			case b <= ' ' || strings.IndexByte("/?#@\"'<>[]", b) >= 0:
				break userinfo
			}
		}
		from = i
	}
}
