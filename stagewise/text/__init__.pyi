from ._tokenizer import ACCEPTED as ACCEPTED
from ._tokenizer import TOKENIZER as TOKENIZER
from ._tokenizer import decode as decode
from ._tokenizer import encode as encode
from ._tokenizer import first_token as first_token
from ._tokenizer import unknown_token as unknown_token
from ._tokenizer import vocabulary_size as vocabulary_size
