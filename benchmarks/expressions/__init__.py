"""Every regular expression of the product and every reader of foreign text, attacked with texts made from them."""
