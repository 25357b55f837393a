package bridge

import (
	"regexp"
	"strings"
)

var (
	// driveID is the shape of a Drive file id: 28 characters in old ones, 33 or 44 in new ones.
	driveID = regexp.MustCompile(`^[A-Za-z0-9_-]{20,128}$`)
	// accountIndex is the number in /u/1/.
	accountIndex = regexp.MustCompile(`^[0-9]{1,2}$`)
)

// bareDriveID tells an id from a name of the same alphabet: ids are long and never all lower case.
func bareDriveID(s string) bool {
	return len(s) >= 25 && driveID.MatchString(s) && strings.ToLower(s) != s
}

// driveLink accepts links to one file in Google Drive.
func driveLink(p pastedLink) (Link, error) {
	segs := p.segs
	if len(segs) >= 2 && segs[0] == "a" { // /a/example.com/…, a Workspace domain
		segs = segs[2:]
	}
	account, segs := cutAccount(segs)
	if len(segs) == 0 {
		return Link{}, refuseLink("it is a Drive page, and no file", "open the notebook in Drive and copy its link")
	}
	switch first, rest := segs[0], segs[1:]; first {
	case "file":
		if n, r := cutAccount(rest); n != "" {
			account, rest = n, r
		}
		if len(rest) >= 2 && len(rest) <= 3 && rest[0] == "d" {
			return driveNotebook(p, rest[1], account)
		}
	case "open", "uc":
		if len(rest) == 0 {
			return driveNotebook(p, pairValue(p.query, "id"), account)
		}
	case "drive", "folderview":
		if _, r := cutAccount(rest); first == "folderview" || len(r) > 0 && r[0] == "folders" {
			return Link{}, refuseLink("it is a Drive folder", "open the notebook in the folder and give its own link")
		}
	}
	return Link{}, refuseLink("it is a Drive page, and no file", "open the notebook in Drive and copy its link")
}

// docsLink exists for its words: these links look like Drive's.
func docsLink(pastedLink) (Link, error) {
	return Link{}, refuseLink("it is a Google Docs file, and no notebook", "give the link of an .ipynb file")
}

// driveNotebook is the notebook with this id; account, if any, was in the path.
func driveNotebook(p pastedLink, id, account string) (Link, error) {
	if !driveID.MatchString(id) {
		return Link{}, refuseLink("it has no Drive file id where one belongs", "copy the notebook's link from Colab or Drive")
	}
	query := accountQuery(p)
	if account != "" {
		query = "authuser=" + account
	}
	if key := pairValue(p.query, "resourcekey"); resourceKeyValue.MatchString(key) {
		if query != "" {
			query += "&"
		}
		query += "resourcekey=" + key
	}
	return Link{path: "/drive/" + id, query: query}, nil
}

// cutAccount takes a leading u/N off the path.
func cutAccount(segs []string) (account string, rest []string) {
	if len(segs) >= 2 && segs[0] == "u" && accountIndex.MatchString(segs[1]) {
		return segs[1], segs[2:]
	}
	return "", segs
}
