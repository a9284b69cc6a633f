"""Table of secrets: names of files and variables that hold them, and patterns of keys, tokens and passwords. Pure.

The same table applies to contents of files, their names, targets of links, messages of commits, what an agent writes
to stderr, and the output of checks and hooks. What is committed is judged strictly, so that no work is held back for an
ordinary word. What is only shown is judged by more patterns: a part that was removed in error costs little there.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

import msgspec

SECRET_NAMES = (
    *(".env", ".env.*", "*.env", ".envrc", ".envrc.*", ".flaskenv.local"),
    *("*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.pkcs12", "*.ppk", "*.jks", "*.jceks", "*.bks", "*.keystore"),
    *("*.truststore", "*.keytab", "*.kdb", "*.kdbx", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
    *("credentials", ".credentials", *(f"{name}.{kind}" for name in ("credentials", ".credentials", "*-credentials")
      for kind in ("json", "yml", "yaml", "toml", "ini", "cfg", "xml", "csv", "txt", "properties", "tfrc.json"))),
    *("secrets.json", "secrets.toml", ".secrets", ".secrets.*", "local.settings.json"),
    *("auth.json", "oauth_creds.json", "client_secret*.json", "service[-_]account*.json", "serviceaccount*.json"),
    *("*firebase-adminsdk*.json", "application_default_credentials.json"),
    *(".netrc", "_netrc", ".pypirc", ".git-credentials", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf"),
    *(".htpasswd", ".htdigest", ".dockercfg", ".dockerconfigjson", ".s3cfg", ".boto", ".vault-token", ".vault_pass*"),
    *("*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json", ".terraformrc", "terraform.rc"),
    *("kubeconfig", "kubeconfig.*", "*.kubeconfig", "settings-security.xml"),
    *(".*_history", ".viminfo", ".lesshst"),
    *(".docker/config.json", ".kube/config", ".gem/credentials", ".ssh/*", ".gnupg/*", ".config/gcloud/*"),
    *("gh/hosts.yml", ".m2/settings.xml", ".azure/*.json", ".password-store/*"),
)  # fmt: skip
"""Names of files that hold secrets, in lower case; a name with a slash is the end of a path."""

TEMPLATE_NAMES = (
    *("*.example", "*.sample", "*.template", "*.tmpl", "*.dist", "*.pub"),
    *("*.example.*", "*.sample.*", "*.template.*", "example.*", "sample.*", "template.*"),
    *("known_hosts", "authorized_keys"),
)  # fmt: skip
"""Names of files that look like those but are meant to be shared."""

_LEFT = rb"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
"""Beginning of a word. The letter of an escaped line end in JSON does not belong to the word."""

_TOKEN_LEFT = rb"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
"""Beginning of a word that may have dashes."""

_PLACEHOLDER = re.compile(
    rb"(?i)(?:.{0,5}"  # too short for a real password
    rb"|.*[${<\[*].*|.*%[({s].*|%\w+%"  # a variable, or stars
    rb"|(?:\.|x|-|_|#)+"
    rb"|(?:(?:my|your|the|a|an|some|any|db|user|test|fake|dummy|super|very|this|is|not|real)[-_ ]?)*"
    rb"(?:pass(?:word|wd|phrase)?|passwd|pwd|s[e3]crets?|tokens?|(?:api)?[-_]?key|credentials?|user(?:name)?|auth|login)"
    rb"(?:[-_]?(?:here|\d{0,4}))"
    rb"|change[-_]?(?:me|it|this)|example.*|placeholder|redacted|removed|foobar|letmein|postgres(?:ql)?|mysql|mongo"
    rb"|root|admin|guest|rabbitmq)"
)
"""Words in place of a password that are not passwords."""

_END = rb"(?![A-Za-z0-9_-])"


class SecretKind(msgspec.Struct, frozen=True):
    """Kind of keys, tokens or passwords."""

    name: str
    marks: tuple[bytes, ...]
    """Texts of which each secret of the kind contains one. Searching for them is about 20 times as fast as the
    pattern."""
    pattern: re.Pattern[bytes]


def _kind(name: str, marks: str, pattern: bytes) -> SecretKind:
    return SecretKind(name, tuple(mark.encode() for mark in marks.split("|")), re.compile(pattern))


SECRET_KINDS = (
    _kind("a private key", "PRIVATE KEY", rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    _kind("a private key", "PuTTY-User-Key-File-", rb"PuTTY-User-Key-File-\d: "),
    _kind("a key of age", "AGE-SECRET-KEY-1", rb"AGE-SECRET-KEY-1[0-9A-Z]{50,}"),
    _kind("a key of AWS", "AKIA|ASIA|ABIA|ACCA", _LEFT + rb"A(?:KIA|SIA|BIA|CCA)[0-9A-Z]{16}(?![0-9A-Za-z])"),
    _kind(
        "a key of AWS",
        "aws|AWS",
        rb"(?i:aws_?(?:secret|session)_?(?:access_?)?(?:key|token))[\"']?\s{0,5}[=:]>?\s{0,5}[\"']?[A-Za-z0-9/+]{40}",
    ),
    _kind("a token of GitHub", "ghp_|gho_|ghu_|ghs_|ghr_", rb"gh[pousr]_[A-Za-z0-9]{36,}"),
    _kind("a token of GitHub", "github_pat_", rb"github_pat_[A-Za-z0-9_]{50,}"),
    _kind(
        "a token of GitLab",
        "glpat-|gldt-|glrt-|glptt-|glcbt-|glft-|glimt-|glagent-|gloas-|glsoat-|glffct-",
        rb"gl(?:pat|dt|rt|ptt|cbt|ft|imt|agent|oas|soat|ffct)-[A-Za-z0-9_.-]{20,}",
    ),
    _kind("a token of Atlassian", "ATATT3", rb"ATATT3[A-Za-z0-9_=-]{50,}"),
    _kind("a token of Slack", "xox", rb"xox[abeoprs]-[A-Za-z0-9-]{20,}"),
    _kind("a token of Slack", "xapp-", rb"xapp-\d-[A-Za-z0-9-]{20,}"),
    _kind(
        "a webhook of Slack",
        "hooks.slack",
        rb"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)(?:/[A-Za-z0-9]{6,}){2}/[A-Za-z0-9]{16,}",
    ),
    _kind("a webhook of Discord", "/webhooks/", rb"/api/(?:v\d+/)?webhooks/\d{15,20}/[A-Za-z0-9_-]{50,}"),
    _kind(
        "a webhook of Teams", ".webhook.office.com/", rb"\.webhook\.office\.com/webhookb2/[0-9a-f-]{36}@[0-9a-f-]{36}/"
    ),
    _kind("a token of Telegram", ":AA", rb"(?<!\d)\d{8,10}:AA[A-Za-z0-9_-]{33}" + _END),
    _kind("a key of Anthropic", "sk-ant-", rb"sk-ant-[A-Za-z0-9_-]{30,}"),
    _kind("a key of OpenAI", "sk-", rb"sk-(?:(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{30,}|[A-Za-z0-9]{48}\b)"),
    _kind("a key of OpenRouter", "sk-or-v1-", rb"sk-or-v1-[0-9a-f]{64}"),
    _kind("a key of DeepSeek", "sk-", _LEFT + rb"sk-[0-9a-f]{32}\b"),
    _kind("a key of Groq", "gsk_", rb"gsk_[A-Za-z0-9]{48,}"),
    _kind("a key of xAI", "xai-", rb"xai-[A-Za-z0-9]{70,}"),
    _kind("a key of Perplexity", "pplx-", rb"pplx-[A-Za-z0-9]{40,}"),
    _kind("a token of Replicate", "r8_", rb"r8_[A-Za-z0-9]{37}" + _END),
    _kind("a token of Hugging Face", "hf_", _LEFT + rb"hf_[A-Za-z0-9]{34}" + _END),
    _kind("a key of Google", "AIza", _LEFT + rb"AIza[0-9A-Za-z_-]{35}"),
    _kind("a key of Google", "GOCSPX-", rb"GOCSPX-[A-Za-z0-9_-]{28}"),
    _kind("a key of Google", "ya29.", rb"ya29\.[A-Za-z0-9_-]{50,}"),
    _kind(
        "a key of Azure", "AccountKey=|AccessKey=", rb"A(?:ccountKey=[A-Za-z0-9+/]{86}==|ccessKey=[A-Za-z0-9+/]{43}=)"
    ),
    _kind("a key of Azure", "Q~", rb"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}" + _END),
    _kind("a key of Stripe", "k_live_", rb"[rs]k_live_[0-9A-Za-z]{20,}"),
    _kind("a key of Stripe", "whsec_", rb"whsec_[A-Za-z0-9+/=]{32,}"),
    _kind("a token of Square", "sq0", rb"sq0(?:csp|atp)-[A-Za-z0-9_-]{22,}"),
    _kind("a token of Shopify", "shpat_|shpca_|shppa_|shpss_", rb"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    _kind("a key of Twilio", "SK", rb"SK(?<![A-Za-z0-9]SK)[0-9a-f]{32}" + _END),
    _kind("a key of SendGrid", "SG.", rb"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _kind("a token of npm", "npm_", rb"npm_[A-Za-z0-9]{36}" + _END),
    _kind(
        "a token of npm",
        ":_auth|:_password|npmAuthToken",
        rb"(?::_(?:authToken|auth|password)\s{0,5}=|npmAuthToken:)\s{0,5}[\"']?(?![$<])[A-Za-z0-9+/=_.-]{8,}",
    ),
    _kind("a token of PyPI", "pypi-AgE", rb"pypi-AgE[A-Za-z0-9_-]{50,}"),
    _kind("a token of RubyGems", "rubygems_", rb"rubygems_[a-f0-9]{48}"),
    _kind("a token of Docker", "dckr_", rb"dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}"),
    _kind("a token of Docker", '"auths"', rb'"auths"[^}]{0,300}"auth"\s{0,5}:\s{0,5}"[A-Za-z0-9+/=]{8,}"'),
    _kind("a key of Kubernetes", "client-key-data:", rb"client-key-data:\s{1,5}[A-Za-z0-9+/=]{40,}"),
    _kind("a token of Terraform", ".atlasv1.", rb"\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    _kind("a token of Vault", "hvs.|hvb.|hvr.", _LEFT + rb"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    _kind("a token of DigitalOcean", "_v1_", rb"do[opr]_v1_[a-f0-9]{64}"),
    _kind("a token of Fly.io", "FlyV1 fm", rb"FlyV1 fm\d_[A-Za-z0-9+/=_,-]{50,}"),
    _kind("a token of Netlify", "nfp_", _LEFT + rb"nfp_[A-Za-z0-9_]{36,}"),
    _kind("a token of Supabase", "sbp_|sb_secret_", _LEFT + rb"sb(?:p_[a-f0-9]{40}|_secret_[A-Za-z0-9_-]{20,})"),
    _kind("a token of Databricks", "dapi", _LEFT + rb"dapi[a-f0-9]{32}"),
    _kind("a token of Tailscale", "tskey-", rb"tskey-[a-z]{3,12}-[A-Za-z0-9]{8,}-[A-Za-z0-9]{20,}"),
    _kind("a token of Grafana", "glc_|glsa_", _LEFT + rb"gl(?:c|sa)_[A-Za-z0-9+/=_]{32,}"),
    _kind("a token of Sentry", "sntry", rb"sntry[su]_[A-Za-z0-9+/=_-]{40,}"),
    _kind("a key of New Relic", "NRAK-", rb"NRAK-[A-Z0-9]{27}" + _END),
    _kind("a key of Postman", "PMAK-", rb"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    _kind("a key of Linear", "lin_api_", rb"lin_api_[A-Za-z0-9]{32,}"),
    _kind("a token of Notion", "ntn_", _LEFT + rb"ntn_[A-Za-z0-9]{40,}"),
    _kind("a token of Figma", "figd_|figo_|figu_|figr_", _LEFT + rb"fig[dour]_[A-Za-z0-9_-]{40,}"),
    _kind("a token of Doppler", "dp.", _LEFT + rb"dp\.(?:pt|st|sa|ct|scim|audit)\.[A-Za-z0-9.]{40,}"),
    _kind("a token of Pulumi", "pul-", _LEFT + rb"pul-[a-f0-9]{40}"),
    _kind("a token of 1Password", "ops_eyJ", rb"ops_eyJ[A-Za-z0-9+/=_-]{100,}"),
    _kind(
        "a password in a URL",
        "://",
        rb"(?<=[A-Za-z0-9])://[^\s:/?#@\"'`<>]{0,100}:(?P<password>[^\s/?#@:\"'`<>]{1,200})@(?=[^\s/\"'`<>])",
    ),
)
"""Kinds of secrets. Most begin with a mark of their service, and are found anywhere. A password in a URL counts unless
it is a variable, very short, or a word such as `password`."""

SHOWN_KINDS = (
    _kind(
        "a private key",
        "PRIVATE KEY",
        rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:(?!-----)[\s\S])*(?:-----END [A-Z0-9 ]{1,60}-----)?",
    ),
    # Neither the end of a word, nor a type of keys of OpenSSH.
    _kind("a key", "sk-", rb"(?<![A-Za-z0-9_-])sk-(?!ssh-|ecdsa-)(?=[A-Za-z_-]{0,100}[0-9])[A-Za-z0-9_-]{6,}"),
    # A word with dashes is read once: a long one would otherwise be read again from each of its parts.
    _kind("a token", "eyJ", _TOKEN_LEFT + rb"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    _kind(
        "a token",
        "earer|EARER|asic|ASIC",
        rb"(?<![A-Za-z0-9])(?i:bearer|basic) {1,3}(?=[A-Za-z._~+/-]{0,100}[0-9])[A-Za-z0-9._~+/-]{12,}={0,2}",
    ),
    _kind(
        "a password",
        "=|:",
        rb"(?i)(?<![a-z])(?<!unexpected )(?<!invalid )(?:[a-z0-9]{1,30}[_-]){0,4}"
        rb"(?:api_?key|access_?key|secret_?key|private_?key|token|secret|password|passwd|passphrase)"
        rb"[\"']?(?:=| ?: ?)[\"']?"
        rb"(?=[a-z_+/.~!@#%^*-]{0,100}[0-9])(?=[0-9_+/.~!@#%^*-]{0,100}[a-z])"
        rb"(?P<password>[a-z0-9_+/.~!@#%^*-]{8,}={0,2})",
    ),
)
"""Kinds of secrets that are recognised in output beside the others: a whole private key, shorter keys, tokens that say
nothing of their service, and what is assigned to a name such as `password` and has letters and digits."""

MIN_SECRET_CHARS = 8
"""Characters of the shortest value that is removed from a text: a shorter one also occurs in ordinary words."""

_Place = tuple[int, int, str]
"""Beginning and end of a secret in a text, and what it is."""

_COLOUR = re.compile(rb"\x1b\[[0-9;:]*[A-Za-z]")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORDS = frozenset(
    ("KEY", "KEYS", "AUTH", "CREDENTIAL", "CREDENTIALS", "COOKIE", "COOKIES", "PASS", "PAT", "PWD")
)
_SECRET_ENDS = ("APIKEY", "ACCESSKEY", "SECRETKEY", "TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE")
_PUBLIC_ENDS = frozenset((
    *("FILE", "PATH", "DIR", "HOME", "SOCK", "SOCKET", "URL", "URI", "HOST", "PORT", "NAME", "USER", "EMAIL", "ID"),
    *("TYPE", "METHOD", "MODE", "LIMIT", "TTL", "TIMEOUT", "ENABLED", "PROGRAM", "HELPER", "ENDPOINT", "ISSUER"),
    *("DOMAIN", "REGION", "AUDIENCE", "SCOPE", "PROVIDER"),
))  # fmt: skip
"""Last words of names of variables that say where a secret is, or something else about it."""


def is_secret_name(path: str) -> bool:
    """Return whether a file's name is that of a file with secrets."""
    path = f"/{path}".lower()
    name = path.rpartition("/")[2]
    if any(fnmatchcase(name, shape) for shape in TEMPLATE_NAMES):
        return False
    return any(fnmatchcase(path, f"*/{shape}") if "/" in shape else fnmatchcase(name, shape) for shape in SECRET_NAMES)


def is_secret_variable(name: str) -> bool:
    """Return whether the value of an environment variable with this name is a secret."""
    words = [word.upper() for word in _WORDS.findall(name)]
    if len(words) < 2 and name.upper() in ("PWD", "KEY", "KEYS", "PASS", "PAT"):
        return False
    if not words or words[-1] in _PUBLIC_ENDS:
        return False
    return any(word in _SECRET_WORDS or word.endswith(_SECRET_ENDS) for word in words)


def secrets_of(env: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets among the values of environment variables, and for each what it is: `the value of NAME`.

    Each line of a value that has several is one.
    """
    return {
        line.strip(): f"the value of {name}"
        for name, value in env.items()
        if is_secret_variable(name)
        for line in (value, *value.splitlines())
        if len(line.strip()) >= MIN_SECRET_CHARS
    }


def secrets_in(content: bytes) -> dict[bytes, str]:
    """Return the secrets in a text, with the names of their kinds; UTF-16 and UTF-32 are read as well."""
    return {found.group(): name for name, found in _matches(_as_utf8(content), SECRET_KINDS)}


def redacted(text: str) -> str:
    """Return a text in which each secret is replaced by a note."""
    data = text.encode("utf-8", "surrogatepass")
    return _without(text, data, _places(data, secrets_in(data)))


def redacted_output(text: str, known: Mapping[str, str]) -> str:
    """Return the output of a program in which each secret is replaced by a note; `known`: secrets and what each is.

    A text without any is returned as it is. Keys are recognised in colours too. They have to be whole: the caller cuts
    the text afterwards.
    """
    data = text.encode("utf-8", "surrogatepass")
    plain = _COLOUR.sub(lambda found: b" " * len(found.group()), data)  # its last letter is no part of a key behind it
    places = [(found.start(), found.end(), name) for name, found in _matches(plain, (*SECRET_KINDS, *SHOWN_KINDS))]
    places += _places(data, {secret.encode("utf-8", "surrogatepass"): name for secret, name in known.items()})
    return _without(text, data, places)


def _matches(content: bytes, kinds: Iterable[SecretKind]) -> Iterator[tuple[str, re.Match[bytes]]]:
    """Yield the secrets of these kinds in a text, each after the name of its kind."""
    for kind in kinds:
        if any(mark in content for mark in kind.marks):
            for found in kind.pattern.finditer(content):
                if "password" not in kind.pattern.groupindex or not _PLACEHOLDER.fullmatch(found["password"]):
                    yield kind.name, found


def _places(data: bytes, secrets: Mapping[bytes, str]) -> list[_Place]:
    """Return all places of these secrets."""
    return [
        (found.start(), found.end(), name)
        for secret, name in secrets.items()
        for found in re.finditer(re.escape(secret), data)
    ]


def _without(text: str, data: bytes, places: list[_Place]) -> str:
    """Return a text, also given as UTF-8, with a note in place of each secret. Several that overlap get one."""
    if not places:
        return text
    pieces, at = [], 0
    for start, end, name in sorted(places, key=lambda place: place[0]):  # the most precise kinds come first
        if start >= at:
            pieces += [data[at:start], f"[removed: {name}]".encode()]
        at = max(at, end)
    return b"".join([*pieces, data[at:]]).decode("utf-8", "surrogatepass")


def _as_utf8(content: bytes) -> bytes:
    """Return a text in another Unicode encoding as UTF-8. Without a byte order mark, its zero bytes are removed."""
    if b"\0" not in content:
        return content
    for mark, encoding in (
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if content.startswith(mark):
            return content.decode(encoding, "replace").encode()
    return content.replace(b"\0", b"")
