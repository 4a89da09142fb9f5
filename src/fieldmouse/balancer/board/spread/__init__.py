"""The board that is made of several, for crawls that one server cannot bear.

Which they are is settled at the `founding`; `shares` says what lies where and adds answers up, `gathering`
asks them all at once. `board` puts that together, `builder` makes again what some of them have lost.
"""
