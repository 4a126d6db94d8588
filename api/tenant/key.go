package tenant

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"
)

// A key reads
//
//	weir_1h8tz0kq4m_Vb3…24 characters…TTTTTTCCCCCC
//
// after the prefix an id, for looking up and for people; after the second
// underscore the secret, then a tag and a checksum. The tag is a part of the
// keyed hash of all before it: only who has the pepper can make one, so a key that
// this server never issued is refused without asking the store, and in the same
// time whether or not its id exists. The checksum is a CRC-32 that everybody can
// compute: it lets a scanner of source code tell a key from a random word.
const (
	// KeyPrefix begins every key.
	KeyPrefix = "weir_"
	// IDChars is the length of a key's id.
	IDChars = 10

	secretChars   = 24 // of 62 letters and digits: 142 random bits
	tagChars      = 6  // 35 bits
	checksumChars = 6  // 32 bits

	signedChars = len(KeyPrefix) + IDChars + 1 + secretChars // what the keyed hash covers
	keyChars    = signedChars + tagChars + checksumChars

	idAlphabet  = "0123456789abcdefghjkmnpqrstvwxyz" // no letters that look like digits
	keyAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// MinPepperBytes is the least length of a pepper.
const MinPepperBytes = 32

// Why a key is not one of ours. A client is never told which of them it was.
var (
	ErrKeyFormat = errors.New("not a key of this kind")
	ErrKeyForged = errors.New("no key that this server issued")
)

// Pepper is the server's own secret, in the keyed hash of every key. A copy of the
// store without the pepper verifies no key, and makes none.
type Pepper struct{ secret []byte }

// NewPepper takes at least MinPepperBytes bytes.
func NewPepper(secret []byte) (Pepper, error) {
	if len(secret) < MinPepperBytes {
		return Pepper{}, fmt.Errorf("the pepper of the keys has %d bytes; it needs at least %d", len(secret), MinPepperBytes)
	}
	return Pepper{secret: secret}, nil
}

// Derive is a secret of 32 bytes for another purpose, which tells nothing about the pepper, nor about the secret of
// any other purpose (HKDF-SHA-256).
func (p Pepper) Derive(purpose string) ([]byte, error) {
	return hkdf.Key(sha256.New, p.secret, nil, "weir "+purpose, sha256.Size)
}

// Hash is HMAC-SHA-256 of a key's prefix, id and secret, under the pepper. Tag and
// checksum follow from it and from them.
type Hash [sha256.Size]byte

// Equal takes the same time whatever the hashes are.
func (h Hash) Equal(other Hash) bool { return subtle.ConstantTimeCompare(h[:], other[:]) == 1 }

func (p Pepper) hash(signed string) (h Hash) {
	mac := hmac.New(sha256.New, p.secret)
	mac.Write([]byte(signed))
	mac.Sum(h[:0])
	return h
}

// Issued is a new key. Text is shown once and kept nowhere.
type Issued struct {
	Text string
	ID   string
	Hash Hash
}

// Issue makes a key.
func (p Pepper) Issue() Issued {
	id := randomText(idAlphabet, IDChars)
	signed := KeyPrefix + id + "_" + randomText(keyAlphabet, secretChars)
	h := p.hash(signed)
	text := signed + tag(h)
	return Issued{Text: text + checksum(text), ID: id, Hash: h}
}

// Open takes a key apart and returns its id and hash. It computes one keyed hash
// for every text that looks like a key, and asks no store.
func (p Pepper) Open(text string) (id string, h Hash, err error) {
	if !LooksLikeKey(text) {
		return "", Hash{}, ErrKeyFormat
	}
	h = p.hash(text[:signedChars])
	if subtle.ConstantTimeCompare([]byte(tag(h)), []byte(text[signedChars:signedChars+tagChars])) != 1 {
		return "", Hash{}, ErrKeyForged
	}
	return text[len(KeyPrefix) : len(KeyPrefix)+IDChars], h, nil
}

// LooksLikeKey checks length, letters and checksum: all that can be known of a key
// without the pepper.
func LooksLikeKey(text string) bool {
	if len(text) != keyChars || !strings.HasPrefix(text, KeyPrefix) || text[len(KeyPrefix)+IDChars] != '_' {
		return false
	}
	body := len(text) - checksumChars
	return IsKeyID(text[len(KeyPrefix):len(KeyPrefix)+IDChars]) &&
		consistsOf(text[len(KeyPrefix)+IDChars+1:], keyAlphabet) &&
		checksum(text[:body]) == text[body:]
}

// IsKeyID reports whether a text has the form of a key's id.
func IsKeyID(text string) bool { return len(text) == IDChars && consistsOf(text, idAlphabet) }

func consistsOf(text, alphabet string) bool {
	for i := range len(text) {
		if strings.IndexByte(alphabet, text[i]) < 0 {
			return false
		}
	}
	return true
}

// tag is the 40 bits of h at its beginning, as letters and digits; the highest
// five bits fall away.
func tag(h Hash) string {
	var n uint64
	for _, b := range h[:5] {
		n = n<<8 | uint64(b)
	}
	return base62(n, tagChars)
}

func checksum(text string) string {
	return base62(uint64(crc32.ChecksumIEEE([]byte(text))), checksumChars)
}

// base62 writes the lowest digits of n, the highest first.
func base62(n uint64, digits int) string {
	text := make([]byte, digits)
	for i := digits - 1; i >= 0; i-- {
		text[i] = keyAlphabet[n%62]
		n /= 62
	}
	return string(text)
}

// randomText draws every character with the same probability.
func randomText(alphabet string, chars int) string {
	text := make([]byte, chars)
	for i := range text {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			panic("the system gives no random numbers: " + err.Error()) // crypto/rand ends the process itself then
		}
		text[i] = alphabet[n.Int64()]
	}
	return string(text)
}
